/** The environment variable with the size: `small`, or a multiple. */
export const sizeVariable = 'TEST_SIZE';

/**
 * The amount of work of a test with many random or repeated cases: `small` for `npm test` and `.ci/run`, `full` for `npm run nightly` and
 * for a single file, and a multiple of `full` for `npm run test:sized`. `full` defaults to `small`. The assertions are the same.
 */
export function sized(small: number, full = small): number {
  const { [sizeVariable]: size = '1' } = process.env;
  return size === 'small' ? small : full * Number(size);
}

/** The same for cases of which `few` stand for `all`. */
export function someOf<Case>(few: readonly Case[], all: readonly Case[]): readonly Case[] {
  return process.env[sizeVariable] === 'small' ? few : all;
}
