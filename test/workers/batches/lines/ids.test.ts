import test from 'ava';
import { ulid } from 'ulid';
import { isFileId } from '../../../../shared/store/files/file-store.ts';
import { requestIdOf, resultFileOf, resultIdOf } from '../../../../workers/batches/lines/batch-job.ts';

test('derived ids are always the same, and differ within a batch', (t) => {
  const batch = `batch_${ulid()}`;
  const lines = Array.from({ length: 1_000 }, (_, index) => index + 1);
  const ids = [
    ...lines.map((line) => resultIdOf(batch, line)),
    ...lines.flatMap((line) => [1, 2].map((number) => requestIdOf(batch, line, number))),
    resultFileOf(batch, 'output'),
    resultFileOf(batch, 'error'),
  ];
  t.is(new Set(ids).size, ids.length);
  t.is(resultIdOf(batch, 7), resultIdOf(batch, 7));
  t.not(resultIdOf(batch, 7), resultIdOf(`batch_${ulid()}`, 7));
  t.regex(requestIdOf(batch, 7, 3), /^req_[0-9A-HJKMNP-TV-Z]{26}-3$/);
});

test('the ids of a batch’s files have the form of file ids, and sort by submission', (t) => {
  const [early, late] = [`batch_${ulid(1_700_000_000_000)}`, `batch_${ulid(1_700_000_000_001)}`];
  for (const kind of ['output', 'error'] as const) {
    t.true(isFileId(resultFileOf(early, kind)));
    t.true(resultFileOf(early, kind) < resultFileOf(late, 'output'));
  }
});
