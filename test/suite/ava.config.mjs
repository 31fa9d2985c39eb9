const isGroup = (file) => file.endsWith('.group.ts');

export default {
  extensions: ['ts'],
  files: ['test/**/*.test.ts', 'test/**/*.slow.ts', 'test/suite/*.group.ts'],
  workerThreads: false,
  timeout: '4m',
  // Files with a process of their own first: the others are even shares of what is left.
  sortTestFiles: (one, other) => Number(isGroup(one)) - Number(isGroup(other)) || (one < other ? -1 : 1),
};
