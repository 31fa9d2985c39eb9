import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import test from 'ava';
import { createOpenApiDocument } from '../../../ingress/api/openapi-document.ts';
import { codesOf, type Route } from '../../../ingress/api/route.ts';
import { batchBody } from '../../../ingress/routes/batches.ts';
import { routes } from '../../../ingress/routes.ts';
import { errorStatus } from '../../../shared/errors.ts';
import { documentedRoutes, templateOf } from '../../support/api-routes.ts';

type Operation = {
  operationId: string;
  security: object[];
  parameters: {
    name?: string;
    in?: string;
    required?: boolean;
    description?: string;
    schema?: { examples?: string[] };
    example?: string;
  }[];
  requestBody?: { content: Record<string, { schema: object; example?: unknown }> };
  responses: Record<string, { headers: object; content?: Record<string, { schema: object; example?: unknown }> }>;
};
type Document = {
  servers: { url: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object> };
};

const addresses = {
  baseUrl: 'https://api.example.com/',
  docsUrl: 'https://docs.example.com',
  authUrl: 'https://id.example.com',
};
const document: Document = JSON.parse(JSON.stringify(createOpenApiDocument(routes, addresses)));
const operations = Object.values(document.paths).flatMap((path) => Object.values(path));

/** All objects within a value, including the value. */
function* objectsIn(value: unknown): Generator<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return;
  yield value as Record<string, unknown>; // JSON objects are records
  for (const item of Object.values(value)) yield* objectsIn(item);
}

function resolve(ref: string): unknown {
  const names = ref.slice('#/'.length).split('/');
  return names.reduce<unknown>((value, name) => (value as Record<string, unknown>)?.[name], document);
}

test('the document is valid OpenAPI 3.1, and an error in it would be found', async (t) => {
  const validator = new Validator();
  t.like(await validator.validate(structuredClone(document)), { valid: true });
  t.is(validator.version, '3.1');
  const wrong = { ...structuredClone(document), servers: 'here' };
  t.like(await new Validator().validate(wrong), { valid: false });
});

test('it documents exactly the routes, without pages for people', (t) => {
  const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  t.deepEqual(documented.sort(), Object.keys(documentedRoutes).map(templateOf).sort());
});

test('every reference resolves, and every component is referenced or named in a description', (t) => {
  const refs = [...objectsIn(document)].flatMap(({ $ref }) => (typeof $ref === 'string' ? [$ref] : []));
  t.true(refs.length > 100);
  for (const ref of new Set(refs)) t.truthy(resolve(ref), ref);
  const text = JSON.stringify(document);
  for (const name of Object.keys(document.components.schemas)) {
    t.true(refs.includes(`#/components/schemas/${name}`) || text.includes(`\`${name}\``), name);
  }
});

test('every schema is accepted by a strict validator', (t) => {
  const ajv = new Ajv2020({ strictTypes: false, formats: { date: true, 'date-time': true, binary: true } });
  ajv.addVocabulary(['example']);
  const definitions = JSON.parse(
    JSON.stringify(document.components.schemas).replaceAll('#/components/schemas/', '#/$defs/'),
  );
  for (const name of Object.keys(definitions)) {
    t.notThrows(() => ajv.compile({ $ref: `#/$defs/${name}`, $defs: definitions }), name);
  }
});

test('every parameter in a path, and every other one that is required, has an example, from which examples of requests are made', (t) => {
  const inPaths = operations.flatMap(({ parameters }) => parameters.filter((parameter) => parameter.in === 'path'));
  t.true(inPaths.length > 15);
  for (const { name, description, example } of inPaths)
    t.true(description !== undefined && example !== undefined, name);
});

test('every example matches its schema', (t) => {
  const ajv = new Ajv2020({ strict: false, formats: { date: true, 'date-time': true, binary: true } });
  ajv.addSchema({ $id: 'openapi', ...document });
  let examples = 0;
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, { requestBody, responses }] of Object.entries(methods)) {
      for (const { content = {} } of [requestBody ?? {}, ...Object.values(responses)]) {
        for (const { schema, example } of Object.values(content)) {
          if (example === undefined) continue;
          examples += 1;
          const ref = JSON.stringify(schema).replaceAll('"#/', '"openapi#/');
          t.true(ajv.validate(JSON.parse(ref), example), `${method} ${path}: ${ajv.errorsText()}`);
        }
      }
    }
  }
  t.true(examples > 20);
  t.true(
    batchBody.safeParse(document.paths['/v1/batches']?.post?.requestBody?.content['application/json']?.example).success,
  );
});

test('every route has the statuses of its codes, a unique id, and the request id in each response', (t) => {
  const ids = operations.map(({ operationId }) => operationId);
  t.is(new Set(ids).size, ids.length);
  for (const [route, description] of Object.entries<Route>(documentedRoutes)) {
    const [method = '', path = ''] = templateOf(route).split(' ');
    const responses = document.paths[path]?.[method.toLowerCase()]?.responses ?? {};
    const wanted = new Set([
      200,
      ...codesOf(description).map(errorStatus),
      ...(description.answers.cached ? [304] : []),
      ...(description.answers.redirect === undefined ? [] : [302]),
    ]);
    t.deepEqual(Object.keys(responses), [...wanted].toSorted((one, other) => one - other).map(String), route);
    for (const { headers } of Object.values(responses)) t.true('x-request-id' in headers, route);
    const { refusals = [] } = description;
    t.is(new Set(refusals).size, refusals.length, route);
  }
});

test('inputs are documented as they are sent: query numbers with their range, lists of a body as lists', (t) => {
  const [purpose, limit, after, order] = document.paths['/v1/files']?.get?.parameters ?? [];
  t.like(
    [purpose, limit, after, order],
    [
      { name: 'purpose', in: 'query', schema: { enum: ['batch', 'batch_output'] } },
      { name: 'limit', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 10_000, default: 10_000 } },
      { name: 'after', in: 'query', schema: { type: 'string' } },
      { name: 'order', in: 'query', schema: { default: 'desc' } },
    ],
  );
  t.like(document.components.schemas.ChatCompletionRequest, {
    required: ['model', 'messages'],
    properties: {
      messages: { type: 'array', minItems: 1, items: { required: ['role'] } },
      stop: { anyOf: [{ anyOf: [{ type: 'string' }, { type: 'array' }] }, { type: 'null' }] },
    },
  });
  t.like(document.components.schemas.NewBatch, {
    properties: {
      metadata: {
        anyOf: [{ maxProperties: 16, propertyNames: { pattern: '^[^\\p{Cc}\\p{Cs}]{1,64}$' } }, { type: 'null' }],
      },
    },
  });
  t.like(document.components.schemas.AccountSettings, { minProperties: 1 });
  t.like(document.paths['/v1/files']?.post?.requestBody, {
    content: { 'multipart/form-data': { schema: { $ref: '#/components/schemas/FileUpload' } } },
  });
});

test('it names the address of the service, and the credential of each route', (t) => {
  t.deepEqual(
    document.servers.map(({ url }) => url),
    ['https://api.example.com', 'https://api.example.com/openai'],
  );
  const securityOf = (path: string, method: string) => document.paths[path]?.[method]?.security;
  const withKey = [{ apiKey: [] }, { 'x-api-key': [] }, { 'api-key': [] }];
  t.deepEqual(securityOf('/v1/chat/completions', 'post'), withKey);
  t.deepEqual(securityOf('/v1/messages', 'post'), withKey);
  t.deepEqual(securityOf('/v1/keys/developer', 'post'), [{ signIn: [] }]);
  t.deepEqual(securityOf('/billing/usage', 'get'), [...withKey, { signIn: [] }]);
  t.deepEqual(securityOf('/v1/keys/guest', 'post'), []);
  t.deepEqual(securityOf('/admin/accounts', 'get'), [{ signIn: ['svc:admin'] }]);
});
