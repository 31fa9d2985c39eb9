import test from 'ava';
import { hourText } from '../../../ingress/console/charts/steps.ts';
import {
  costsOf,
  errorShare,
  errorsOf,
  firstHour,
  lineHours,
  longestWait,
  rateNow,
  ratesOf,
  rateWords,
} from '../../../ingress/console/operator-home/service-numbers.ts';
import { formatPercent } from '../../../ingress/console/page/format.ts';
import { filterOfCode, isServiceError, wasAdmitted } from '../../../ingress/console/requests/code-words.ts';
import type { FleetHistory } from '../../../ingress/routes/fleet-history.ts';
import { errorCodes } from '../../../shared/errors.ts';

const seconds = (time: string) => Date.parse(time) / 1_000;
const now = seconds('2026-03-11T10:22:30Z');
const none = { errors: {}, longest_wait_ms: 0, first_token_ms: null, backends: [] };
const historyOf = (requests: number[]): FleetHistory => ({
  object: 'fleet.history',
  step_seconds: 300,
  total: { ...none, requests: 0 },
  data: requests.map((count, index) => ({
    start: new Date((seconds('2026-03-11T10:20:00Z') - 300 * (requests.length - 1 - index)) * 1_000).toISOString(),
    ...none,
    requests: count,
  })),
});

test('the present step is counted for the part of it that has passed', (t) => {
  t.deepEqual(ratesOf(historyOf([0, 300, 300]), now), [0, 1, 2]);
  t.deepEqual(ratesOf(historyOf([300, 1]), seconds('2026-03-11T10:20:05Z')), [1, null], 'too little of it has passed');
  t.is(rateNow(historyOf([900, 300, 150]), now), 1);
  t.is(rateNow(historyOf([]), now), 0);
  t.deepEqual(
    [300, 3_600].map((step) => rateWords({ step_seconds: step })),
    ['in the last 10 min', 'in the last 2 h'],
  );
});

test('errors of the service have a share; those of clients are counted apart', (t) => {
  const step = { requests: 200, errors: { rate_limit_exceeded: 1, INVALID_KEY: 90, UPSTREAMS_EXHAUSTED: 3, lost: 1 } };
  t.is(errorShare(step), 0.02);
  t.deepEqual(errorsOf(step), {
    ofService: [
      ['UPSTREAMS_EXHAUSTED', 3],
      ['lost', 1],
    ],
    ofClients: 91,
  });
  t.is(errorShare({ requests: 9, errors: { INVALID_KEY: 9 } }), 0);
  t.is(errorShare({ requests: 0, errors: {} }), null);
  t.deepEqual([0, 0.021, 0.0996, 0.5].map(formatPercent), ['0 %', '2.1 %', '10 %', '50 %']);
});

test('errors of the service are those of shared/errors.ts with a status of 5xx, and requests that are lost', (t) => {
  const codes = Object.keys(errorCodes) as (keyof typeof errorCodes)[];
  t.deepEqual(
    codes.filter(isServiceError),
    codes.filter((code) => errorCodes[code].status >= 500),
  );
  t.true(isServiceError('lost'));
  t.deepEqual(
    [filterOfCode('lost'), filterOfCode('INTERNAL_ERROR')],
    [{ outcome: 'lost' }, { code: 'INTERNAL_ERROR' }],
  );
});

test('only an error that is never a refusal leads to the page of its request', (t) => {
  t.true(wasAdmitted({ status: 503, code: 'UPSTREAMS_EXHAUSTED' }));
  t.true(wasAdmitted({ status: 200, code: 'INTERNAL_ERROR' }), 'its stream had begun');
  t.false(wasAdmitted({ status: 503, code: 'SERVICE_UNAVAILABLE' }), 'the queue can be full');
  t.false(wasAdmitted({ status: 429, code: 'rate_limit_exceeded' }));
  t.false(wasAdmitted({ status: 0, code: 'unreachable' }));
});

test('the longest wait is found, unless none has waited', (t) => {
  const history = historyOf([1, 1]);
  t.is(longestWait(history), undefined);
  const [first, second] = history.data as [(typeof history.data)[number], (typeof history.data)[number]];
  t.is(longestWait({ ...history, data: [{ ...first, longest_wait_ms: 90 }, second] })?.longest_wait_ms, 90);
});

test('the hours of a range, and of its line, end with the present one', (t) => {
  t.is(hourText(firstHour('1h', now)), '2026-03-11T09');
  t.is(hourText(firstHour('24h', now)), '2026-03-10T11');
  t.is(hourText(firstHour('7d', now)), '2026-03-04T11');
  t.deepEqual(lineHours('1h', now), { start: '2026-03-10T11', end: '2026-03-11T10' });
});

test('costs are of each hour and of the range; without prices these are tokens', (t) => {
  const counts = { failed: 0, cancelled: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0, overageTokens: 0 };
  const row = (hour: string, cost: string, chargedTokens: number) => ({
    ...{ ...counts, requests: 1, hour: `2026-03-11T${hour}:00:00.000Z`, cost, chargedTokens },
  });
  const report = {
    ...{
      start: '2026-03-11T07',
      end: '2026-03-11T10',
      unit: 'tokens' as const,
      groupBy: ['hour' as const],
      rowCount: 2,
    },
    ...{ total: row('07', '0', 0), data: [row('07', '1', 7), row('10', '0.5', 3)] },
  };
  const first = seconds('2026-03-11T09:00:00Z');
  t.deepEqual(costsOf({ ...report, currency: 'USD' }, first), { currency: 'USD', total: 0.5, line: [1, 0, 0, 0.5] });
  t.deepEqual(costsOf(report, first), { currency: undefined, total: 3, line: [7, 0, 0, 3] });
});
