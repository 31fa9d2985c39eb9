import { resolve } from 'node:path';

/** Set if `run-files.ts` has chosen the files. */
const order = new Map(JSON.parse(process.env.TEST_ORDER ?? '[]').map((file, index) => [resolve(file), index]));
const placeOf = (file) => order.get(file) ?? 0;

export default {
  extensions: ['ts'],
  files: ['test/**/*.test.ts', 'test/**/*.slow.ts', 'test/**/*.nightly.ts', 'test/suite/groups/*/*.ts'],
  workerThreads: false,
  timeout: '4m',
  sortTestFiles: (one, other) => placeOf(one) - placeOf(other),
};
