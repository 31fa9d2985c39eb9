import test from 'ava';
import { usageRecord } from '../../shared/store/usage-records.ts';
import { type AskedRequest, answerTo } from '../truth/ask.ts';
import { type BackendCall, contradictionsIn, type Evidence } from '../truth/contradictions.ts';

const attempts = [{ run: 1, backend: 'onprem-a', outcome: 'answered' }];
const tokens = { promptTokens: 5, completionTokens: 7 };
const record = usageRecord({
  ...{ requestId: 'req_1', outcome: 'completed', counted: 'reported', runs: 1, attempts, ...tokens, chargedTokens: 12 },
});
const call: BackendCall = {
  ...{ id: 1, backend: 'onprem-a', requestId: 'req_1', model: 'small-chat', stream: false, body: undefined, ...tokens },
  ...{ headers: { contentType: undefined, hasAuthorization: false }, state: 'completed', chunksSent: 1 },
  ...{ path: '/v1/chat/completions', ownHeaders: {}, cachedTokens: 0, atOnce: 1, startedAt: 0, endedAt: 1 },
};
const path = '/v1/chat/completions';
const asked = { requestId: 'req_1', path, question: 'Who is there?', stream: true } as const;
const answer = answerTo(asked).join('');
const truth: Evidence = {
  asked: [{ ...asked, ending: 'answered', usage: tokens, text: answer }],
  calls: [call],
  events: [record],
  records: new Map([['req_1', record]]),
};
const kept = (changes: Partial<typeof record>) => {
  const changed = { ...record, ...changes };
  return { events: [changed], records: new Map([['req_1', changed]]) };
};

test('finds nothing if all agree, even if a run was lost that had called a backend', (t) => {
  t.deepEqual(contradictionsIn(truth), []);
  const lost = kept({
    runs: 2,
    attempts: [
      { run: 1, outcome: 'lost' },
      { run: 2, backend: 'onprem-a', outcome: 'answered' },
    ],
  });
  t.deepEqual(contradictionsIn({ ...truth, ...lost, calls: [{ ...call, state: 'aborted' }, call] }), []);
});

const busyCall: BackendCall = {
  ...call,
  state: 'failed',
  status: 429,
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens: 0,
};

test('finds nothing in repeated calls of a busy backend, which are one attempt', (t) => {
  const busyFirst = kept({ attempts: [{ run: 1, backend: 'onprem-a', outcome: 'busy' }, ...attempts] });
  t.deepEqual(contradictionsIn({ ...truth, ...busyFirst, calls: [busyCall, busyCall, call] }), []);
});

test('finds nothing in a backend that a lost run found busy', (t) => {
  const lostFirst = kept({ attempts: [{ run: 1, outcome: 'lost' }, ...attempts], runs: 2 });
  t.deepEqual(contradictionsIn({ ...truth, ...lostFirst, calls: [busyCall, busyCall, busyCall, call] }), []);
});

test('finds nothing in the beginning of an answer if the client left or got an error frame', (t) => {
  const text = answer.slice(0, 9);
  t.deepEqual(contradictionsIn({ ...truth, asked: [{ ...asked, ending: 'left', at: 0, text }] }), []);
  const interrupted: AskedRequest = { ...asked, ending: 'interrupted', code: 'UPSTREAM_INTERRUPTED', text };
  t.deepEqual(contradictionsIn({ ...truth, asked: [interrupted] }), []);
});

const body = { messages: [{ role: 'user', content: asked.question }] };
const estimated = { counted: 'estimated', promptTokens: 8, completionTokens: 9, chargedTokens: 17 } as const;
const unusedAnswer = { asked: [{ ...asked, ending: 'answered', usage: undefined, text: answer }] } as const;

test('finds nothing in an estimate within the size of prompt and output', (t) => {
  const stopped = [{ run: 1, backend: 'onprem-a', outcome: 'stopped' }];
  const left: AskedRequest = { ...asked, ending: 'left', at: 0, text: answer.slice(0, 9) };
  const calls = [{ ...call, body, state: 'aborted' as const }];
  t.deepEqual(
    contradictionsIn({
      ...truth,
      ...kept({ ...estimated, outcome: 'cancelled', attempts: stopped }),
      calls,
      asked: [left],
    }),
    [],
  );
  const whole = [{ ...call, body, completionTokens: answerTo(asked).length }];
  t.deepEqual(contradictionsIn({ ...truth, ...kept(estimated), calls: whole, ...unusedAnswer }), []);
});

const lies: Record<string, Partial<Evidence>> = {
  'a repeated event': { events: [record, record] },
  'an event that is not in the store': { records: new Map() },
  'a record that differs from its event': { events: [{ ...record, chargedTokens: 11 }] },
  'a record without an event': { events: [] },
  'an answer whose record has another outcome': kept({ outcome: 'failed', attempts: [] }),
  'an answer with other tokens than its record': {
    asked: [{ ...asked, ending: 'answered', usage: { ...tokens, completionTokens: 8 }, text: answer }],
  },
  'a stream that stopped without an end': {
    asked: [{ ...asked, ending: 'malformed', status: 200, text: '' }],
  },
  'an answer with a missing part': {
    asked: [{ ...asked, ending: 'answered', usage: tokens, text: answer.slice(0, -1) }],
  },
  'a stream with two beginnings': {
    asked: [{ ...asked, ending: 'interrupted', code: 'UPSTREAM_INTERRUPTED', text: 'You You' }],
  },
  'a call of a request without a record': { calls: [call, { ...call, requestId: 'req_2' }] },
  'a call that its record does not contain': { calls: [call, { ...call, backend: 'cloud', state: 'aborted' }] },
  'a call that found a backend busy, without an attempt': { calls: [busyCall, call] },
  'a failed call beside a busy one': {
    ...kept({ attempts: [{ run: 1, backend: 'onprem-a', outcome: 'busy' }, ...attempts] }),
    calls: [busyCall, { ...busyCall, status: 500 }, call],
  },
  'more failed calls than a lost run makes': {
    ...kept({ attempts: [{ run: 1, outcome: 'lost' }, ...attempts], runs: 2 }),
    calls: [...Array.from({ length: 3 }, () => ({ ...busyCall, status: 500 })), call],
  },
  'a charge above the produced tokens': kept({ completionTokens: 8, chargedTokens: 13 }),
  'an estimate of more tokens than were written': {
    ...kept({ ...estimated, completionTokens: 20, chargedTokens: 28 }),
    ...{ calls: [{ ...call, body }], ...unusedAnswer },
  },
  'an estimate of more tokens than the prompt has': {
    ...kept({ ...estimated, promptTokens: 30, chargedTokens: 39 }),
    ...{ calls: [{ ...call, body }], ...unusedAnswer },
  },
  'an estimate of output without a call that wrote any': {
    ...kept({ ...estimated, outcome: 'cancelled', attempts: [] }),
    ...{ calls: [], asked: [] },
  },
  'uncharged tokens': kept({ chargedTokens: 11 }),
};

for (const [title, lie] of Object.entries(lies)) {
  test(`finds ${title}`, (t) => {
    t.not(contradictionsIn({ ...truth, ...lie }).length, 0);
  });
}
