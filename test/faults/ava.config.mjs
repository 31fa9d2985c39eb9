export default {
  extensions: ['ts'],
  files: ['test/faults/**/*.{test,slow,nightly}.ts'],
  workerThreads: false,
  timeout: '15m',
};
