import test from 'ava';
import { z } from 'zod';
import { named, route } from '../../ingress/api/route.ts';
import type { AppParts } from '../../ingress/app-parts.ts';
import { createRouter } from '../../ingress/router.ts';
import { routes } from '../../ingress/routes.ts';

/** Parts of which every member is one, too. The stages are only made, and none of them runs. */
const anyParts: AppParts = new Proxy(() => {}, {
  get: (_, name) => (name === Symbol.toPrimitive ? () => 1 : anyParts),
  apply: () => anyParts,
}) as unknown as AppParts;

const about = { tag: 'Keys', summary: 'A route.', answers: { description: 'Text.', schema: 'object' } } as const;
/** A route that declares all that sets a stage, except an endpoint. */
const full = route({
  ...about,
  id: 'full',
  method: 'POST',
  path: '/full',
  access: 'account',
  body: { schema: named('FullBody', z.strictObject({})) },
  limits: ['settings_limit', 'guest_calls'],
  noStore: true,
  inTurns: true,
  usesAccount: true,
  guard() {},
  handle() {},
});

/** The stages of each route. */
function stagesOf(...given: Parameters<typeof createRouter>[0]) {
  return createRouter(given, anyParts).stack.map(({ stack }) => stack);
}
const namesOf = (stages: readonly { name: string }[] = []) => stages.map(({ name }) => name).join(' ');

test('a guard comes before what is counted, and both before the body is read', (t) => {
  const [all] = stagesOf(full);
  t.is(
    namesOf(all),
    'forbidStoring authenticateEither checkPresentCaller refuseWithoutFiles guard limitSettings limitGuestCalls useAccountAgain readJsonBody takeTurn handle',
  );
  const [open] = stagesOf(route({ ...about, id: 'open', method: 'GET', path: '/open', access: 'none', handle() {} }));
  t.is(namesOf(open), 'handle');
  const [counted] = stagesOf(
    route({ ...about, id: 'counted', method: 'GET', path: '/counted', access: 'operator', counted: true, handle() {} }),
  );
  t.is(namesOf(counted), 'authenticateSignIn readLimitCounters requireOperator handle');
});

test('requests that call a model read their body only from a caller that is not refused, and admission checks them again', (t) => {
  const calling = routes.filter(({ endpoint }) => endpoint !== undefined);
  t.true(calling.length > 5);
  for (const stages of stagesOf(...calling)) {
    t.is(
      namesOf(stages),
      'authenticateKey checkRefusedCaller readJsonBody claimIdempotencyKey readCall refuseFullQueue admitRequest answerRepeat handle',
    );
  }
});

test('the routes that take turns share them, so an account has one turn for all of them', (t) => {
  const turns = stagesOf(full, { ...full, id: 'other', path: '/other' }).map((stages) =>
    stages.find(({ name }) => name === 'takeTurn'),
  );
  t.true(turns[0] !== undefined && turns[0] === turns[1]);
});

test('no two operations have the same id, and no two routes the same method and path', (t) => {
  const documented = routes.filter(({ answers }) => answers.schema !== 'page');
  for (const names of [documented.map(({ id }) => id), routes.map(({ method, path }) => `${method} ${path}`)])
    t.deepEqual(
      names.filter((name, index) => names.indexOf(name) !== index),
      [],
    );
});
