import type { OnReadOpts, Socket } from 'node:net';

/** Less than a reader notices. A tick costs the same for one token as for many: a frame, its way through Redis, and wake-ups. */
const tickMs = 10;

let waiting: (() => void)[] = [];
let tickedAt = Number.NEGATIVE_INFINITY;

/**
 * Runs tasks of all streams together: at the end of this turn of the event loop if the last ones ran 10 ms ago or earlier, else when those
 * 10 ms are over (decisions.md#text-is-read-in-ticks). A task must not throw.
 */
export function atTick(task: () => void): void {
  waiting.push(task);
  if (waiting.length > 1) return;
  const waitMs = tickedAt + tickMs - performance.now();
  if (waitMs > 0) setTimeout(tick, waitMs);
  else setImmediate(tick);
}

function tick(): void {
  tickedAt = performance.now();
  const tasks = waiting;
  waiting = [];
  for (const task of tasks) task();
}

/** Bytes go through it into the buffer of their connection. Node would allocate as much for each read. */
const readBuffer = Buffer.allocUnsafe(65_536);
/** A connection with more of them is not read until its parser has taken them. */
const heldBytesMax = 65_536;

/** Takes the bytes of a read, and returns whether more may be read. */
type Take = (bytes: Buffer) => boolean;
const takers = new WeakMap<Socket, Take>();

/** How a connection to a backend is read, also with TLS. */
export const onread: OnReadOpts = {
  buffer: readBuffer,
  callback(this: Socket, length: number): boolean {
    const bytes = Buffer.from(readBuffer.subarray(0, length));
    return takers.get(this)?.(bytes) ?? this.push(bytes);
  },
};

/** A connection. */
export type Flow = {
  /** Text of an answer comes from it. Until the first token, nothing may wait. */
  isFlowing: boolean;
  /** It has bytes for the next tick. */
  readonly waits: boolean;
  /** Parses them now, unless others are being parsed: the parser cannot do both. */
  readNow(): void;
};
let current: Flow | undefined;

/** The connection whose bytes are parsed now. */
export function parsedFlow(): Flow | undefined {
  return current;
}

/**
 * Lets undici parse the bytes of this connection together with those of the others at the next tick, while text comes from it
 * (contract.md#p2-frames, decisions.md#text-is-read-in-ticks).
 */
export function gatherReads(socket: Socket): void {
  const emit = socket.emit.bind(socket) as (name: string | symbol, ...values: unknown[]) => boolean;
  const destroy = socket.destroy.bind(socket);
  const read = socket.read.bind(socket);
  const push = socket.push.bind(socket);
  const flow = {
    isFlowing: false,
    waits: false,
    readNow() {
      if (flow.waits && current === undefined) parse();
    },
  };
  let held: Buffer[] = [];
  let heldBytes = 0;

  function parse(): boolean {
    flow.waits = false;
    current = flow;
    try {
      return emit('readable');
    } finally {
      current = undefined;
    }
  }

  function parseAtTick(): void {
    if (!flow.waits) atTick(flow.readNow);
    flow.waits = true;
  }

  function takeHeld(): Buffer | null {
    const [first = null] = held;
    const all = held.length > 1 ? Buffer.concat(held) : first;
    held = [];
    heldBytes = 0;
    return all;
  }

  // Such bytes need no stream: with it, a token costs the worker a fifth more.
  takers.set(socket, (bytes) => {
    if (!flow.isFlowing && held.length === 0) return push(bytes);
    held.push(bytes);
    heldBytes += bytes.length;
    parseAtTick();
    return heldBytes <= heldBytesMax;
  });
  // Before them comes what the stream has, such as the rest of a read in which the parser was paused.
  socket.read = (size?: number) => read(size) ?? (size === 0 ? null : takeHeld());
  socket.emit = (name: string | symbol, ...values: unknown[]) => {
    if (name !== 'readable') return emit(name, ...values);
    if (!flow.isFlowing) return parse();
    parseAtTick();
    return true;
  };
  // What came before the connection ended or broke counts, and its end does not wait for a tick.
  socket.push = (chunk: unknown, encoding?: BufferEncoding) => {
    if (chunk === null) flow.isFlowing = false;
    if (chunk === null && held.length > 0) push(takeHeld());
    return push(chunk, encoding);
  };
  socket.destroy = (error?: Error & { syscall?: string }) => {
    if (error?.syscall === 'read') flow.readNow();
    flow.waits = false;
    return destroy(error);
  };
}
