import tally from "./index.js";

export const { startTally, TallyError } = tally;
