import test from 'ava';
import { testFrozenWorker } from './batch-frozen-worker.ts';

testFrozenWorker({
  test,
  fault: {
    id: 'B5b',
    done: 'the second of two workers is frozen for longer than its locks during a batch',
    promised: 'the other runs its lines; each is charged exactly once',
  },
  index: 1,
});
