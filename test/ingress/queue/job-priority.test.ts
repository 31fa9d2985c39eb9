import test from 'ava';
import { isLaterTurn, turnsAheadMax } from '../../../ingress/queue/queue-turns.ts';

test('a turn is later than the known one up to the most that turns can be ahead', (t) => {
  const known = 7;
  const turns = [known - 1, known, known + 1, known + turnsAheadMax, known + turnsAheadMax + 1];
  t.deepEqual(
    turns.map((turn) => isLaterTurn(turn, known)),
    [false, false, true, true, false],
  );
});
