import test from 'ava';
import { z } from 'zod';
import { methodsOf, named, route } from '../../../ingress/api/route.ts';
import { routes } from '../../../ingress/routes.ts';
import { endpoints } from '../../../shared/endpoints/endpoints.ts';
import { documentedRoutes } from '../../support/api-routes.ts';

const about = { tag: 'Keys', summary: 'A route.', answers: { description: 'Text.', schema: 'object' } } as const;
const schema = named('TestBody', z.strictObject({ name: z.string() }));

test('a handler can use only what its route declares: its caller, query, body, parameters and counters', (t) => {
  const open = { ...about, id: 'open', method: 'POST', path: '/open', access: 'none' } as const;
  route({ ...open, body: { schema }, handle: ({ body }) => void body.name });
  // @ts-expect-error a route without a body has none
  route({ ...open, handle: ({ body }) => void body });
  // @ts-expect-error the body has no such field
  route({ ...open, body: { schema }, handle: ({ body }) => void body.other });
  // @ts-expect-error a route without a query has none
  route({ ...open, handle: ({ query }) => void query });
  // @ts-expect-error no one has authenticated
  route({ ...open, handle: ({ caller }) => void caller });
  route({ ...open, access: 'key', handle: ({ caller }) => void caller.account });
  // @ts-expect-error an API key is never an operator
  route({ ...open, access: 'key', handle: ({ isOperator }) => void isOperator });
  // @ts-expect-error the counters were not read
  route({ ...open, access: 'key', handle: ({ counters }) => void counters });
  route({ ...open, access: 'key', counted: true, handle: ({ counters }) => void counters.now });
  const params = { file: { description: 'A file.', example: 'a' } };
  route({ ...open, path: '/files/:file', params, handle: ({ params }) => void params.file });
  // @ts-expect-error the path has no such parameter
  route({ ...open, path: '/files/:file', params, handle: ({ params }) => void params.batch });
  // @ts-expect-error a parameter of the path is not described
  route({ ...open, path: '/files/:file', handle() {} });
  t.pass('the types are the proof');
});

test('a handler answers with the schema of its route', (t) => {
  const answers = { description: 'A name.', schema };
  const named = { ...about, id: 'named', method: 'GET', path: '/name', access: 'none', answers } as const;
  route({ ...named, handle: () => ({ name: 'a' }) });
  // @ts-expect-error it has another type
  route({ ...named, handle: () => ({ name: 1 }) });
  t.pass('the types are the proof');
});

test('every parameter of a path with an error of its own has a pattern', (t) => {
  const all = Object.values(documentedRoutes).flatMap(({ params = {} }) => Object.values(params));
  t.true(all.length > 15);
  for (const { pattern, missing, example } of all) {
    t.is(pattern === undefined, missing === undefined, example);
    if (pattern !== undefined) t.regex(example, pattern);
  }
});

test('methods are listed in one order', (t) => {
  t.deepEqual(methodsOf(routes), ['HEAD', 'GET', 'POST', 'PATCH', 'DELETE']);
});

test('every endpoint has a route', (t) => {
  const documented = Object.values(documentedRoutes).flatMap(({ endpoint }) => endpoint ?? []);
  t.deepEqual(documented.map(({ path }) => path).toSorted(), endpoints.map(({ path }) => path).toSorted());
});
