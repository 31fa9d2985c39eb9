/**
 * How much a test of many random or repeated cases does: `small` for `npm test`, `full` for `npm run test:all` and where one file is
 * run, and so many times `full` for `npm run test:sized`. `full` left out, it is `small`. The assertions are the same.
 */
export function sized(small: number, full = small): number {
  const { TEST_SIZE = '1' } = process.env;
  return TEST_SIZE === 'small' ? small : full * Number(TEST_SIZE);
}
