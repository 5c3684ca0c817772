// What came back, before somebody takes it for a reply of Tally. A proxy may answer in its place, or spoil its replies.

const EXCERPT_MAX = 100; // characters

/** It is no reply of Tally, or it did not arrive whole. The server may have done what it was asked for. */
export class UnreadableReply extends Error {
  name = "UnreadableReply";
  $retryable = {}; // the SDK sends the request again, as if there had been no reply

  constructor(message, { statusCode }) {
    super(message);
    this.status = statusCode;
  }
}

/** A middleware that reads each reply whole. It stands next to the connection, so the SDK's come after it. */
export const readReply = (collect) => (next) => async (args) => {
  const result = await next(args);
  const { response } = result;
  response.body = await collect(response.body);
  check(response);
  return result;
};

function check(response) {
  const { statusCode, headers, body } = response;
  // Tally says it with each reply. An error of somebody else is no word of the server, whatever its status.
  if (headers["x-amzn-requestid"] === undefined) throw new UnreadableReply(strangerOf(response), response);
  const coding = headers["content-encoding"] ?? "identity";
  if (coding !== "identity")
    throw new UnreadableReply(`the reply was compressed (${coding}) on its way, which nobody asked for`, response);
  const isError = statusCode >= 300;
  if (isError && !headers["content-type"]?.includes("json")) return; // a request that is no SQS is answered in XML
  const told = parsed(body);
  if (told === undefined) throw new UnreadableReply("the reply was spoiled on its way: it is no JSON", response);
  // Gateways of AWS number their replies in the same way.
  if (isError && told?.__type === undefined) throw new UnreadableReply(strangerOf(response), response);
}

/** What a stranger says may tell what is wrong. Tally's own replies are never shown: they have messages in them. */
function strangerOf({ statusCode, headers, body }) {
  const target = headers.location === undefined ? "" : ` to ${headers.location}`;
  const whole = textOf(body);
  const text = (/<title[^>]*>([^<]*)/i.exec(whole)?.[1] ?? whole).replace(/[\s\p{Cc}]+/gu, " ").trim();
  const excerpt = text === "" ? "" : `: ${text.slice(0, EXCERPT_MAX)}`;
  return `what answered is not Tally: status ${statusCode}${target}, ${headers["content-type"] ?? "no type"}${excerpt}`;
}

/** An action that has nothing to say has an empty reply. Undefined: it is no JSON. */
function parsed(body) {
  try {
    return body.length > 0 ? JSON.parse(textOf(body)) : {};
  } catch {
    return undefined;
  }
}

const textOf = (bytes) => new TextDecoder().decode(bytes);
