import test from 'ava';
import { testFrozenWorker } from './batch-frozen-worker.ts';

testFrozenWorker({
  test,
  fault: {
    id: 'B5a',
    done: 'the first of two workers stands still for longer than its locks amid a batch',
    promised: 'its lines are run by the other; none is charged twice, and none is left uncharged',
  },
  index: 0,
});
