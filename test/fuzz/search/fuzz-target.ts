import type fc from 'fast-check';

/** A part of the service that reads bytes from outside, and a promise that holds for all of them. */
export type FuzzTarget = {
  /** The promise, in one line. */
  promise: string;
  /** Texts with a meaning in this format. Mutations insert them. */
  words: readonly string[];
  /** Inputs that are nearly well-formed, in addition to the mutated seeds. */
  structured?: fc.Arbitrary<Uint8Array>;
  /** The most bytes of an input. Default: `inputBytesMax`. */
  bytesMax?: number;
  /** The most processor time of an input, in milliseconds. Default: `defaultCpuMsMax`. */
  cpuMsMax?: number;
  /** Throws if the promise is broken. Otherwise returns the outcome for the statistics: `accepted`, or an error's code. */
  check(input: Buffer): string | Promise<string>;
};

/** By name, which is also the name of the folder of seeds. */
export type FuzzTargets = Readonly<Record<string, FuzzTarget>>;

/** An ordinary input takes less than a millisecond. This allows for a slow machine and a garbage collection. */
export const defaultCpuMsMax = 2_000;
/** The most bytes of an input of any target. */
export const inputBytesMax = 65_536;

/** Checks one input and its processor time. Throws the errors of the target's own check. */
export async function checkInput(target: FuzzTarget, input: Buffer): Promise<string> {
  const { cpuMsMax = defaultCpuMsMax } = target;
  const before = process.threadCpuUsage();
  const outcome = await target.check(input);
  const { user, system } = process.threadCpuUsage(before);
  const cpuMs = (user + system) / 1_000;
  if (cpuMs > cpuMsMax) throw new Error(`took ${Math.round(cpuMs)} ms of processor time, more than ${cpuMsMax} ms`);
  return outcome;
}

/** Fails with this message, which names the broken promise. */
export function require(holds: boolean, broken: string): asserts holds {
  if (!holds) throw new Error(broken);
}
