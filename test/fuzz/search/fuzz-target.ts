import type fc from 'fast-check';

/** A part of the service that takes bytes from outside, and what holds for all of them. */
export type FuzzTarget = {
  /** What holds, in one line. */
  promise: string;
  /** Texts that mean something in this format. Mutations put them in. */
  words: readonly string[];
  /** Inputs that are nearly well-formed, beside the mutated seeds. */
  structured?: fc.Arbitrary<Uint8Array>;
  /** No input is longer; `inputBytesMax` if left out. */
  bytesMax?: number;
  /** Of one input, in milliseconds of processor time; `defaultCpuMsMax` if left out. */
  cpuMsMax?: number;
  /** Throws if the promise is broken; else returns what came of the input, for the statistics: `accepted`, or an error's code. */
  check(input: Buffer): string | Promise<string>;
};

/** Each by the name that its seeds' folder has. */
export type FuzzTargets = Readonly<Record<string, FuzzTarget>>;

/** An ordinary input takes less than a millisecond. The slowest machine and a collection of garbage are in this. */
export const defaultCpuMsMax = 2_000;
/** No input of any target is longer. */
export const inputBytesMax = 65_536;

/** Checks one input, and that it does not take too long. Fails as the target's own check does. */
export async function checkInput(target: FuzzTarget, input: Buffer): Promise<string> {
  const { cpuMsMax = defaultCpuMsMax } = target;
  const before = process.threadCpuUsage();
  const outcome = await target.check(input);
  const { user, system } = process.threadCpuUsage(before);
  const cpuMs = (user + system) / 1_000;
  if (cpuMs > cpuMsMax) throw new Error(`took ${Math.round(cpuMs)} ms of processor time, more than ${cpuMsMax} ms`);
  return outcome;
}

/** Fails with this message, which names the promise that is broken. */
export function require(holds: boolean, broken: string): asserts holds {
  if (!holds) throw new Error(broken);
}
