import test from 'ava';
import { sampleRun } from '../../support/sample-runs.ts';
import { notWorthWriting, peersNotMeasured, warningsOf } from './worth-writing.ts';

test('too few rounds, too short ones, and a run without peers are not written, and it is said why', (t) => {
  const enough = { part: 'peers', rounds: 3, seconds: 3, withPeers: true } as const;
  t.is(notWorthWriting(enough), undefined);
  t.regex(notWorthWriting({ ...enough, rounds: 2 }) ?? '', /2 rounds/);
  t.regex(notWorthWriting({ ...enough, seconds: 2.9 }) ?? '', /2.9 s/);
  t.regex(notWorthWriting({ ...enough, withPeers: false }) ?? '', /peers/);
  t.is(notWorthWriting({ ...enough, part: 'truth', rounds: 1 }), undefined, 'it has no rounds');
  t.regex(notWorthWriting({ ...enough, part: 'truth', withPeers: false }) ?? '', /peers/);
});

test('a peer that was not measured is named with what kept it', (t) => {
  const rows = [
    { name: 'ours', does: '' },
    { name: 'a peer', does: '', missing: 'it can not be installed' },
  ];
  const ours = sampleRun({ row: 'ours', load: 'x', round: 1 });
  t.is(peersNotMeasured({ rows, runs: [ours] }), 'a peer: it can not be installed');
  t.is(peersNotMeasured({ rows, runs: [ours, { ...ours, row: 'a peer' }] }), undefined);
});

test('a machine that was busy before is told of', (t) => {
  t.deepEqual(warningsOf(0.15), []);
  t.regex(warningsOf(0.16)[0] ?? '', /the machine was busy: 16%/);
});
