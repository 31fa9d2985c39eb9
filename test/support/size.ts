/**
 * The amount of work of a test with many random or repeated cases: `small` for `npm test`, `full` for `npm run test:all` and for a single
 * file, and a multiple of `full` for `npm run test:sized`. `full` defaults to `small`. The assertions are the same.
 */
export function sized(small: number, full = small): number {
  const { TEST_SIZE = '1' } = process.env;
  return TEST_SIZE === 'small' ? small : full * Number(TEST_SIZE);
}
