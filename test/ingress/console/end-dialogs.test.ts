import test from 'ava';
import { endedWords } from '../../../ingress/console/operators/end-dialogs.ts';

const words = (kind: 'request' | 'batch' | 'key', requests: object[] = [], batches: object[] = []) =>
  endedWords({ kind, id: 'this', name: 'NAME' }, { requests, batches } as Parameters<typeof endedWords>[1]);

test('what an operator has ended is named, and said to end only until it has ended', (t) => {
  t.is(words('key'), 'The key NAME was revoked.');
  t.is(words('request', [{ id: 'this', state: 'streaming' }]), 'The request NAME ends within two seconds.');
  t.is(words('request', [{ id: 'this', state: 'ended' }]), 'The request NAME has ended.');
  t.is(words('request', [{ id: 'other', state: 'streaming' }]), 'The request NAME has ended.', 'it left no record');
  t.is(words('batch', [], [{ id: 'this', status: 'cancelling' }]), 'The batch NAME is being cancelled.');
  t.is(words('batch', [], [{ id: 'this', status: 'cancelled' }]), 'The batch NAME has ended.');
});
