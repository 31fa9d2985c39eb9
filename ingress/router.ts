import Router from '@koa/router';
import { createBusyLoop, createTurns, type Turns, turnsBusyFrom } from '../shared/concurrency/in-turn.ts';
import { holderOf } from '../shared/store/records/account.ts';
import { parseQuery } from './api/lists.ts';
import type { LimitType } from './api/refusals.ts';
import type { Access, Route, RouteRequest } from './api/route.ts';
import type { AppParts } from './app-parts.ts';
import { uncountedBodies } from './listener/body-budget.ts';
import { parseBody } from './listener/json-body.ts';
import { admitRequest, refuseFullQueue } from './middleware/admit-request.ts';
import {
  authenticateEither,
  authenticateKey,
  authenticateSignIn,
  checkPresentCaller,
  checkRefusedCaller,
  limitGuestCalls,
  limitSettings,
  readLimitCounters,
  refuseWithoutFiles,
  requireOperator,
  useAccountAgain,
} from './middleware/authenticate.ts';
import { answerRepeat, claimIdempotencyKey } from './middleware/idempotency.ts';
import { readCalls } from './middleware/read-call.ts';
import { readJsonBody } from './middleware/read-json-body.ts';
import { forbidStoring } from './middleware/security-headers.ts';
import { type AppContext, pathParameter, type RequestState, type Stage, stateOf } from './request-state.ts';

/** The largest body of a change to a key or an account: far more than its fields need. */
const settingsBytesMax = 16_384;

/** Creates the router of the public listener: each route with the stages that follow from what it declares. */
export function createRouter(routes: readonly Route[], parts: AppParts): Router<RequestState> {
  const router = new Router<RequestState>({ strict: true, sensitive: true });
  const stages = createStages(parts);
  for (const route of routes) router.register(route.path, [route.method], stagesOf(route, parts, stages));
  return router;
}

type Stages = ReturnType<typeof createStages>;

/** The stages that several routes share. */
function createStages({ log, redis, http, authentication, queue }: AppParts) {
  const { metrics, body, topupUrl } = http;
  const withKey = authenticateKey(authentication);
  const withSignIn = authenticateSignIn(authentication);
  const withEither = authenticateEither({ withKey, withSignIn });
  const checkRefused = checkRefusedCaller(authentication);
  return {
    credential: {
      none: [],
      key: [withKey],
      signIn: [withSignIn],
      either: [withEither],
      account: [withEither],
      operator: [withSignIn],
    },
    check: checkPresentCaller(authentication),
    readCounters: readLimitCounters(authentication),
    ofAccess: { account: [refuseWithoutFiles], operator: [requireOperator()] } satisfies Partial<
      Record<Access, Stage[]>
    > as Partial<Record<Access, Stage[]>>,
    limits: {
      settings_limit: [limitSettings(authentication)],
      guest_calls: [limitGuestCalls(authentication)],
    } satisfies Partial<Record<LimitType, Stage[]>> as Partial<Record<LimitType, Stage[]>>,
    useAgain: useAccountAgain({ ...authentication, log }),
    turn: takeTurns(),
    readBody: readJsonBody({ ...body, metrics }),
    readSmallBody: (bytesMax: number) =>
      readJsonBody({ ...body, metrics, bodyBytesMax: Math.min(bytesMax, body.bodyBytesMax), budget: uncountedBodies }),
    beforeAdmission: {
      checkRefused,
      claim: claimIdempotencyKey(authentication),
      readCall: readCalls({ ...queue, metrics }),
    },
    admission: [
      refuseFullQueue({ ...queue, metrics }),
      admitRequest({ ...authentication, metrics, topupUrl }),
      answerRepeat({ redis, ...queue }),
    ],
  };
}

/** The stages of a route, in order (contract.md#a1-public-listener). */
function stagesOf(route: Route, parts: AppParts, stages: Stages): Stage[] {
  const { access, endpoint, limits = [] } = route;
  const last = handleRoute(route, parts);
  if (endpoint !== undefined) {
    const { checkRefused, claim, readCall } = stages.beforeAdmission;
    return [
      ...stages.credential.key,
      checkRefused,
      stages.readBody,
      claim,
      readCall(endpoint),
      ...stages.admission,
      last,
    ];
  }
  const check = route.counted ? stages.readCounters : stages.check;
  return [
    ...(route.noStore ? [forbidStoring] : []),
    ...stages.credential[access],
    ...(access === 'none' ? [] : [check]),
    ...(stages.ofAccess[access] ?? []),
    ...(route.guard ? [guardStage(route, parts)] : []),
    ...limits.flatMap((type) => stages.limits[type] ?? []),
    ...(route.usesAccount ? [stages.useAgain] : []),
    ...bodyStage(route, stages),
    ...(route.inTurns ? [stages.turn] : []),
    last,
  ];
}

function bodyStage({ access, body }: Route, stages: Stages): Stage[] {
  if (body === undefined || body.form) return [];
  const isSettings = access === 'signIn' || access === 'operator';
  const bytesMax = body.bytesMax ?? (isSettings ? settingsBytesMax : undefined);
  return [bytesMax === undefined ? stages.readBody : stages.readSmallBody(bytesMax)];
}

function guardStage(route: Route, parts: AppParts): Stage {
  return async function guard(_ctx, next) {
    route.guard?.(parts);
    await next();
  };
}

/** The last stage of a route: it reads what the route declares, and lets the route answer. */
export function handleRoute(route: Route, parts: AppParts): Stage {
  const { query, body, endpoint } = route;
  const schema = body === undefined || body.form || endpoint !== undefined ? undefined : body.schema;
  const requestOf = createRequestOf(route);
  return async function handle(ctx) {
    const request = requestOf(ctx);
    if (query !== undefined) Object.assign(request, { query: parseQuery(query, ctx.querystring) });
    if (schema !== undefined) Object.assign(request, { body: parseBody(schema, stateOf(ctx, 'body')) });
    const answer = await route.handle(request, parts);
    if (answer !== undefined) ctx.body = answer;
  };
}

function createRequestOf({ path, params = {} }: Route): (ctx: AppContext) => RouteRequest {
  // A prefix of a parameter is part of it: `key_:key`.
  const parameters = [...path.matchAll(/(\w*)[:*](\w+)/g)].map(([, prefix = '', name = '']) => ({
    prefix,
    name,
    ...params[name],
  }));
  return (ctx) => {
    const values: Record<string, string> = {};
    for (const { prefix, name, pattern, missing } of parameters) {
      const value = prefix + pathParameter(ctx, name);
      if (missing !== undefined && !pattern?.test(value)) throw missing();
      values[name] = value;
    }
    const { requestId, planFile, address, caller, now, isOperator, counters } = ctx.state;
    const request = { ctx, requestId, planFile, address, params: values };
    if (now !== undefined) Object.assign(request, { caller, now, at: new Date(now), isOperator, counters });
    return request as unknown as RouteRequest; // the stages of its access have set what the route declares
  };
}

/**
 * For routes that no limit counts: of an account one request begins in each turn of the event loop, and one in 25 ms while the loop is
 * busy. So requests of others come between, however many an account sends (contract.md#v3-rests). A request whose client leaves no longer
 * waits, so connections bound how many do.
 */
export function takeTurns(options: Parameters<typeof createTurns>[0] = {}): Stage {
  const pace = { isBusy: createBusyLoop(turnsBusyFrom), ...options };
  const accounts = new Map<string, { turns: Turns; waiting: number }>();

  return async function takeTurn(ctx, next) {
    const holder = holderOf(stateOf(ctx, 'caller'));
    const own = accounts.get(holder) ?? { turns: createTurns(pace), waiting: 0 };
    accounts.set(holder, own);
    own.waiting += 1;
    await turnOrLeaving(own.turns, ctx.req);
    own.waiting -= 1;
    if (own.waiting === 0) accounts.delete(holder);
    if (!ctx.req.socket.destroyed) await next();
  };
}

async function turnOrLeaving({ run }: Turns, { socket }: AppContext['req']): Promise<void> {
  if (socket.destroyed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const withdraw = run(resolve);
  const leave = () => {
    withdraw();
    resolve();
  };
  socket.once('close', leave);
  await promise;
  socket.off('close', leave);
}
