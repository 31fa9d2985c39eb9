// What is too long for `npm test` ends in .long.ts: `npm run faults` alone runs it.
export default {
  extensions: ['ts'],
  files: ['test/faults/**/*.test.ts', 'test/faults/**/*.long.ts'],
  workerThreads: false,
  timeout: '15m',
};
