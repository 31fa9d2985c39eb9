// What ends in .long.ts runs here alone, the rest in `npm run test:all`, too.
export default {
  extensions: ['ts'],
  files: ['test/faults/**/*.{test,slow,long}.ts'],
  workerThreads: false,
  timeout: '15m',
};
