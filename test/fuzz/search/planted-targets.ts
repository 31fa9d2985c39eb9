import type { FuzzTargets } from './fuzz-target.ts';

const words = ['bad', '!'];
const promise = 'no input is bad';
const isBad = (input: Buffer) => input.includes('bad!');

/** Targets that fail on the word `bad!`, each in another way. */
export const targets: FuzzTargets = {
  throws: {
    ...{ promise, words },
    check(input) {
      if (isBad(input)) throw new Error('the input is bad');
      return 'accepted';
    },
  },
  loops: {
    ...{ promise, words },
    check(input) {
      while (isBad(input));
      return 'accepted';
    },
  },
  waits: {
    ...{ promise, words },
    check: (input) => (isBad(input) ? new Promise(() => {}) : 'accepted'),
  },
  rejects: {
    ...{ promise, words },
    check(input) {
      if (isBad(input)) void Promise.reject(new Error('an uncaught error'));
      return 'accepted';
    },
  },
  computes: {
    ...{ promise, words },
    cpuMsMax: 10,
    check(input) {
      const before = process.threadCpuUsage();
      if (isBad(input)) while (process.threadCpuUsage(before).user < 15_000);
      return 'accepted';
    },
  },
  holds: { ...{ promise, words }, check: (input) => (input.length > 3 ? 'accepted' : 'refused') },
};
