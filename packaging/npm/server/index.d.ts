/// <reference lib="esnext.disposable" />

/** A queue to make: its name, or its name with attributes and tags as CreateQueue takes them. */
export type QueueSpec =
  | string
  | { name: string; attributes?: Record<string, string>; tags?: Record<string, string> };

export interface StartOptions {
  /** Queues that are there when the promise resolves. A name that ends in .fifo makes a FIFO queue. */
  queues?: QueueSpec[];
  /** More flags of tallyd, such as ["--in-flight-max", "100"]. With --data the folder is yours, and stays. */
  options?: string[];
  /** 0, the default, takes a free port. */
  port?: number;
  /** Shown in ARNs; us-east-1. */
  region?: string;
  /** The tallyd to start, instead of the package's. */
  binary?: string;
  /** How long it may take until it serves, in milliseconds; 30,000. */
  timeout?: number;
}

export interface Tally {
  /** "http://127.0.0.1:PORT" */
  readonly endpoint: string;
  readonly port: number;
  readonly region: string;
  /** For SDKs, which want some; the server takes any. */
  readonly credentials: { accessKeyId: string; secretAccessKey: string };
  /** The process of tallyd. */
  readonly pid: number;
  queueUrl(name: string): string;
  /** Deletes every queue with its messages, and makes those of `queues` again. */
  reset(): Promise<void>;
  /** Ends the server and removes its folder. It may be called again. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export class TallyError extends Error {
  code: "UNSUPPORTED_PLATFORM" | "BINARY_MISSING" | "GLIBC_TOO_OLD" | "START_FAILED" | "REQUEST_FAILED";
  /** What tallyd said on standard error, if it ended. */
  stderr?: string;
}

/** Starts a server of one's own: on a free port, with an empty folder that goes away at the end. It ends with stop(), or
 * with this process, however that ends. */
export function startTally(options?: StartOptions): Promise<Tally>;
