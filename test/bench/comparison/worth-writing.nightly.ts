import test from 'ava';
import { sampleRun } from '../../support/sample-runs.ts';
import { notWorthWriting, peersNotMeasured, warningsOf } from './worth-writing.ts';

test('too few or too short rounds and a run without peers are not written, and the reason is given', (t) => {
  const enough = { part: 'peers', rounds: 3, seconds: 3, withPeers: true } as const;
  t.is(notWorthWriting(enough), undefined);
  t.regex(notWorthWriting({ ...enough, rounds: 2 }) ?? '', /2 rounds/);
  t.regex(notWorthWriting({ ...enough, seconds: 2.9 }) ?? '', /2.9 s/);
  t.regex(notWorthWriting({ ...enough, withPeers: false }) ?? '', /peers/);
  t.is(notWorthWriting({ ...enough, part: 'truth', rounds: 1 }), undefined, 'it has no rounds');
  t.regex(notWorthWriting({ ...enough, part: 'truth', withPeers: false }) ?? '', /peers/);
  t.is(notWorthWriting({ ...enough, part: 'cluster', withPeers: false }), undefined, 'it has no peers');
  t.regex(notWorthWriting({ ...enough, part: 'cluster', rounds: 2 }) ?? '', /2 rounds/);
});

test('a peer that was not measured is named with the reason', (t) => {
  const rows = [
    { name: 'ours', does: '' },
    { name: 'a peer', does: '', missing: 'it cannot be installed' },
  ];
  const ours = sampleRun({ row: 'ours', load: 'x', round: 1 });
  t.is(peersNotMeasured({ rows, runs: [ours] }), 'a peer: it cannot be installed');
  t.is(peersNotMeasured({ rows, runs: [ours, { ...ours, row: 'a peer' }] }), undefined);
});

test('a machine that was busy before the run is reported', (t) => {
  t.deepEqual(warningsOf(0.15), []);
  t.regex(warningsOf(0.16)[0] ?? '', /the machine was busy: 16%/);
});
