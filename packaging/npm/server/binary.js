"use strict";
// Where the program is, and why it may not run here.

const fs = require("node:fs");
const path = require("node:path");

class TallyError extends Error {
  constructor(code, message, details = {}) {
    super(message);
    this.name = "TallyError";
    this.code = code;
    Object.assign(this, details);
  }
}

/** The path of tallyd: TALLY_SERVER_BINARY, or that of the package for this machine. */
function findBinary() {
  if (process.env.TALLY_SERVER_BINARY) return process.env.TALLY_SERVER_BINARY;
  const machine = `${process.platform}-${process.arch}`;
  const name = `@tally-queue/${machine}`;
  const known = Object.keys(require("./package.json").optionalDependencies);
  if (!known.includes(name))
    throw new TallyError(
      "UNSUPPORTED_PLATFORM",
      `tally-server has no program for ${machine}, only for ${known.map((each) => each.split("/")[1]).join(", ")}. ` +
        "TALLY_SERVER_BINARY may name a tallyd that was built here.",
    );
  try {
    return path.join(path.dirname(require.resolve(`${name}/package.json`)), "bin", "tallyd");
  } catch {
    throw new TallyError(
      "BINARY_MISSING",
      `The package ${name} is not installed. It is an optional dependency of tally-server: install again without ` +
        "--omit=optional and --no-optional, and on this machine, not by copying node_modules from another one.",
    );
  }
}

/** Why it could not be started at all. */
function explainSpawn(binary, error) {
  if (error.code === "ENOENT" && fs.existsSync(binary))
    return new TallyError(
      "UNSUPPORTED_PLATFORM",
      `${binary} can't be loaded: it needs glibc, and this system has another C library, as Alpine Linux does. ` +
        "Use an image of Debian, Ubuntu or Fedora.",
    );
  return new TallyError("START_FAILED", `${binary} can't be started: ${error.message}`, { cause: error });
}

/** Why it ended before it served. */
function explainExit(status, stderr) {
  const glibc = /version `GLIBC_([0-9.]+)' not found/.exec(stderr);
  if (glibc)
    return new TallyError(
      "GLIBC_TOO_OLD",
      `tallyd needs glibc ${glibc[1]} or later, and this system has an older one. Debian 12 and Ubuntu 24.04 have it.`,
      { stderr },
    );
  return new TallyError("START_FAILED", `tallyd ended with ${status} before it served. It said:\n${stderr.trim()}`, {
    stderr,
  });
}

module.exports = { TallyError, findBinary, explainSpawn, explainExit };
