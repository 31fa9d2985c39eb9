import test from 'ava';
import type { IngressMetrics } from '../../../ingress/metrics.ts';
import { refuseFullQueue } from '../../../ingress/middleware/admit-request.ts';
import type { QueueEntry } from '../../../ingress/queue/queue-bounds.ts';
import type { AppContext } from '../../../ingress/request-state.ts';
import type { ApiError } from '../../../shared/errors.ts';

const call = { pool: 'default', model: 'small-chat', endpoint: '/v1/chat/completions', payload: '{}' };
const claim = { idempotencyKey: 'order-17', bodyMarks: ['mark'] };

/** Sends one request through the stage. `left`: how often its place was left. */
async function pass({
  entry,
  replyTo = 'stream',
  claim,
  caller,
}: {
  entry: 'full' | 'room';
  replyTo?: string;
  claim?: object;
  caller?: { account: string; plan: string };
}) {
  const refused: string[] = [];
  const entered: object[] = [];
  let [left, passed] = [0, false];
  const place = { queued() {}, leave: () => void left++, latestTurn: { turn: 0 } };
  const entries: Record<string, QueueEntry> = { full: { full: 'jobs' }, room: { place, requestsAtOnceMax: 3 } };
  const stage = refuseFullQueue({
    queueBounds: {
      enter(request) {
        entered.push(request);
        return entries[entry] as QueueEntry;
      },
    },
    metrics: {
      queueRefusals: { inc: ({ reason }: { reason: string }) => refused.push(reason) },
    } as unknown as IngressMetrics,
    replyTo: () => (replyTo === '' ? undefined : replyTo),
    random: () => 0,
  });
  const state: Record<string, unknown> = { call, ...(claim && { claim }), ...(caller && { caller }) };
  const ctx = { state } as unknown as AppContext; // the stage uses nothing else
  const error = await stage(ctx, async () => {
    passed = true;
  }).then(
    () => undefined,
    (thrown: ApiError) => thrown,
  );
  return { error, state, refused, passed, left, entered };
}

test('a request with room passes and leaves its place unless another part took it over', async (t) => {
  const { passed, left, state } = await pass({ entry: 'room' });
  t.deepEqual([passed, left, state.fairShare], [true, 1, 3]);
});

test('a full queue is 503 before any admission', async (t) => {
  const { error, passed, refused } = await pass({ entry: 'full' });
  t.like(error, { code: 'SERVICE_UNAVAILABLE' });
  t.deepEqual([passed, refused], [false, ['jobs']]);
});

test('a request with an idempotency key passes a full queue without a place, and carries the refusal with it', async (t) => {
  const { error, passed, refused, state, left } = await pass({ entry: 'full', claim });
  t.is(error, undefined);
  t.deepEqual([passed, refused, left], [true, ['jobs'], 0]);
  t.like(state.refusal, { code: 'SERVICE_UNAVAILABLE' });
  t.is(state.place, undefined);
});

test('the same holds while this ingress cannot receive replies', async (t) => {
  t.like((await pass({ entry: 'room', replyTo: '' })).error, { code: 'SERVICE_UNAVAILABLE' });
  const { passed, state } = await pass({ entry: 'room', replyTo: '', claim });
  t.true(passed);
  t.like(state.refusal, { code: 'SERVICE_UNAVAILABLE' });
});

test('a request with an idempotency key and room has its place and no refusal', async (t) => {
  const { state, left } = await pass({ entry: 'room', claim });
  t.is(state.refusal, undefined);
  t.is(left, 1);
});

test('a device takes from the share of all devices, in turns of its own, and an account from its own share', async (t) => {
  const asked = { model: 'small-chat', bytes: 2 };
  const ofDevice = await pass({ entry: 'room', caller: { account: 'device:1', plan: 'guest-device' } });
  t.deepEqual(ofDevice.entered, [{ ...asked, account: 'device:1', holder: 'guest-device' }]);
  const ofAccount = await pass({ entry: 'room', caller: { account: 'user:a', plan: 'free' } });
  t.deepEqual(ofAccount.entered, [{ ...asked, account: 'user:a', holder: 'user:a' }]);
});
