// Files that end in .long.ts run only here. The others also run in `npm run test:all`.
export default {
  extensions: ['ts'],
  files: ['test/faults/**/*.{test,slow,long}.ts'],
  workerThreads: false,
  timeout: '15m',
};
