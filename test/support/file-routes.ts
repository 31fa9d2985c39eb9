import Router from '@koa/router';
import Koa from 'koa';
import { createInsertWithRoom } from '../../ingress/files/account-room.ts';
import { createUploadFile } from '../../ingress/files/upload-file.ts';
import { answerErrors } from '../../ingress/middleware/answer-errors.ts';
import { refuseWithoutFiles } from '../../ingress/middleware/authenticate.ts';
import type { RequestState } from '../../ingress/request-state.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Caller } from '../../shared/store/records/account.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { mountRoutes } from './api-routes.ts';
import { parsedPlan } from './parsed-plan.ts';
import { recordedLog } from './recorded-log.ts';
import { serveApp } from './serve-app.ts';

type Options = {
  store: Pick<Store, 'batches' | 'files'>;
  batch?: Partial<PlanFile['batch']>;
  plans?: PlanFile['plans'];
  requestsToEnd?: { has: (id: string) => Promise<boolean> };
  /** Redis's time. */
  now?: () => number;
};

const fileRoutes = [
  ...['uploadFile', 'listFiles', 'retrieveFile', 'retrieveFileContent', 'deleteFile'],
  ...['createBatch', 'listBatches', 'retrieveBatch', 'cancelBatch'],
];

/** The routes of files and batches without credentials: the caller of each request is given. */
export async function serveFileRoutes({
  store,
  batch,
  plans,
  requestsToEnd = { has: async () => false },
  now = Date.now,
}: Options) {
  const { log } = recordedLog();
  const { planFile } = parsedPlan();
  const callers = new Map<string, Caller>();
  const parts = {
    store,
    log,
    http: { uploadFile: createUploadFile({ store, giveUp: new AbortController().signal, log }) },
    queue: { requestsToEnd, insertWithRoom: createInsertWithRoom({ store: store.batches }) },
  };
  const router = new Router<RequestState>();
  router.use(refuseWithoutFiles);
  mountRoutes(router, fileRoutes, parts);

  const app = new Koa<RequestState>();
  app.use(answerErrors({ log, docsUrl: '' }));
  app.use(async function state(ctx, next) {
    const caller = callers.get(ctx.get('x-caller'));
    if (caller === undefined) throw new Error('the request names no caller');
    ctx.state.caller = caller;
    ctx.state.planFile = { ...planFile, ...(plans && { plans }), batch: { ...planFile.batch, ...batch } };
    ctx.state.now = now();
    const body = ctx.get('x-body');
    if (body !== '') ctx.state.body = { value: JSON.parse(body), text: body };
    await next();
  });
  app.use(router.routes());
  app.on('error', () => {});
  const served = await serveApp(app);

  /** `body` is JSON, or the text of a file to upload. */
  async function ask(
    caller: Caller,
    method: string,
    path: string,
    body?: object | string,
    headers: Record<string, string> = {},
  ) {
    const name = JSON.stringify(caller);
    callers.set(name, caller);
    const form = new FormData();
    if (typeof body === 'string') {
      form.set('purpose', 'batch');
      form.set('file', new Blob([body]), 'in.jsonl');
    }
    const response = await fetch(`${served.url}${path}`, {
      method,
      headers: { ...headers, 'x-caller': name, ...(typeof body === 'object' && { 'x-body': JSON.stringify(body) }) },
      ...(typeof body === 'string' && { body: form }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: () => JSON.parse(text) };
  }

  return { ask, [Symbol.dispose]: () => served[Symbol.dispose]() };
}
