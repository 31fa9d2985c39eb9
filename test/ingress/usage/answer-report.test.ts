import test, { type ExecutionContext } from 'ava';
import Koa from 'koa';
import type { RequestState } from '../../../ingress/request-state.ts';
import { answerReport } from '../../../ingress/usage/usage-report.ts';
import { usageRecords } from '../../shared/store/usage-records.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { detailsOf, readCsv } from '../../support/report-side.ts';
import { serveApp } from '../../support/serve-app.ts';

const range = { start: '2026-12-01', end: '2026-12-31' };
const records = usageRecords(2_000, (index) => ({ model: `model-${index}` }));

/** Asks for a report of many blocks, of which the client takes so long to read each. */
async function ask(t: ExecutionContext, blockMs: number): Promise<Response> {
  const app = new Koa<RequestState>();
  let now = 0;
  const clock = () => {
    now += blockMs;
    return now;
  };
  app.use((ctx) =>
    answerReport(
      ctx,
      {
        ...{ details: detailsOf(records, { pieceLength: 500 }), pricing: undefined, isOfOneAccount: true },
        query: { unit: 'day', range, groups: ['day', 'model'], format: 'csv' },
      },
      { log: recordedLog().log, now: clock },
    ),
  );
  app.on('error', () => {});
  const { url, ...served } = await serveApp(app);
  t.teardown(() => served[Symbol.dispose]());
  return fetch(url);
}

test('a client that reads a file slower than the minimum rate is disconnected', async (t) => {
  await t.throwsAsync(async () => (await ask(t, 59_000)).text(), { instanceOf: TypeError });
});

test('a client that reads a file at the minimum rate gets all of it', async (t) => {
  t.is(readCsv(await (await ask(t, 1_000)).text()).length, records.length);
});
