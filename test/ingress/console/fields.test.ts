import test from 'ava';
import { namedOptions } from '../../../ingress/console/page/fields.ts';

test('options keep their order, also those named by numbers, and each is offered once', (t) => {
  t.deepEqual(
    [...namedOptions(['free', '4', 'free', '2'])],
    [
      ['free', 'free'],
      ['4', '4'],
      ['2', '2'],
    ],
  );
});
