import { type ErrorCode, errorStatus } from '../../../shared/errors.ts';
import { keyHeaders } from '../../callers/authorization.ts';
import { headersOf } from './headers.ts';
import { type JsonSchema, propertiesOf, refTo, toJsonSchema } from './json-schema.ts';
import { limitTypes, meanings } from './refusals.ts';
import { codesOf, limitsOf } from './route-codes.ts';
import type { Credential, RouteDescription, StreamDescription } from './route-description.ts';

/** One route as an Operation Object (OpenAPI 3.1, 4.8.10); `path` in the syntax of OpenAPI. */
export function describeOperation(path: string, route: RouteDescription): object {
  const { id, tag, summary, description, body } = route;
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    security: securities[route.credential],
    parameters: [
      ...pathParameters(path),
      ...queryParameters(route),
      ...headerParameters(route),
      { $ref: '#/components/parameters/clientRequestId' },
    ],
    ...(body !== undefined && { requestBody: describeBody(body) }),
    responses: { ...describeAnswer(route), ...describeRefusals(route) },
  };
}

/** Any of them suffices. */
const withKey = [{ apiKey: [] }, ...keyHeaders.map((name) => ({ [name]: [] }))];
const signedIn = { signIn: [] };
const securities: Record<Credential, object[]> = {
  none: [],
  key: withKey,
  signIn: [signedIn],
  either: [...withKey, signedIn],
  account: [...withKey, signedIn],
  operator: [{ signIn: ['svc:admin'] }],
};

const pathDetails: Record<string, { description: string; example: string }> = {
  model: { description: 'The name of a model. It can contain slashes.', example: 'small-chat' },
  file: { description: 'The id of a file.', example: 'file-01KBN4V4W0R2E9Z6Y5QH3T8MXA' },
  batch: { description: 'The id of a batch.', example: 'batch_01KBN4V4W0R2E9Z6Y5QH3T8MXA' },
  key: { description: 'The id of a key.', example: 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXA' },
  request: {
    description: 'The `x-request-id` of a request, or the `id` in its answer.',
    example: 'req_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  },
  webhook: { description: 'The id of a webhook endpoint.', example: 'wh_01KBN4V4W0R2E9Z6Y5QH3T8MXA' },
  event: { description: 'The id of an event.', example: 'evt_5f1c0a7be2d94c3f8a60d1b2c3e4f506' },
  code: { description: 'The id of a top-up code.', example: 'tuc_01KJMMA2KV0000015QP5D3J9J9' },
  backend: { description: 'The name of a backend in the plan file.', example: 'onprem-a' },
  account: { description: '`user:<sub>`, or `device:<SHA-256 of its id>`.', example: 'user:alice' },
};

function pathParameters(path: string): object[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    ...pathDetails[name],
    schema: { type: 'string' },
  }));
}

function queryParameters({ query }: RouteDescription): object[] {
  if (query === undefined) return [];
  const { required = [], ...written } = toJsonSchema(query, 'input');
  return Object.entries(propertiesOf(written)).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    ...(Array.isArray(required) && required.includes(name) && { required: true }),
    description,
    schema,
  }));
}

const idempotencyKey = {
  name: 'idempotency-key',
  in: 'header',
  description:
    'A text that names this request, such as a random id. A repeat with the same key and body does not run again: it gets the answer or the batch of the first request. The answer of a stream is not kept.',
  schema: { type: 'string', pattern: '^[!-~]{1,255}$' },
};

function headerParameters({ passedOn = [], repeatable }: RouteDescription): object[] {
  const description = 'The model server gets it unchanged.';
  const schema = { type: 'string', maxLength: 1_024 };
  return [
    ...(repeatable ? [idempotencyKey] : []),
    ...passedOn.map((name) => ({ name, in: 'header', description, schema })),
  ];
}

function describeBody({ schema, form, example }: NonNullable<RouteDescription['body']>): object {
  const type = form ? 'multipart/form-data' : 'application/json';
  return {
    required: true,
    content: { [type]: { schema: refTo(schema), ...(example !== undefined && { example }) } },
  };
}

/** In OpenAPI 3.1 a stream is a text. The extension names the schemas of the data of its events. */
function describeStream({ events, description, example }: StreamDescription): object {
  return { schema: { type: 'string', description }, example, 'x-event-schema': { anyOf: events.map(refTo) } };
}

/** Further headers of every response of a route. */
function ownHeaders({ headers = [], queued }: RouteDescription): string[] {
  return [...headers, ...(queued ? ['x-svc-queue-ms', 'x-svc-dropped'] : [])];
}

function describeAnswer(route: RouteDescription): object {
  const { description, schema, stream, csv, cached, redirect, example, headers: further = [] } = route.answer;
  const isFile = schema === 'bytes';
  const ofFile = isFile || csv !== undefined ? ['content-disposition'] : cached ? ['etag'] : [];
  const common = headersOf(200, route.credential);
  const headers = refsTo([...common, ...ofFile, ...further, ...ownHeaders(route)]);
  const content = {
    [isFile ? 'application/octet-stream' : 'application/json']: {
      schema: bodySchema(schema),
      ...(example !== undefined && { example }),
    },
    ...(stream && { 'text/event-stream': describeStream(stream) }),
    ...(csv !== undefined && { 'text/csv': { schema: { type: 'string' }, example: csv } }),
  };
  return {
    200: { description, headers, content },
    ...(redirect !== undefined && {
      302: { description: redirect, headers: refsTo([...common, 'location']), content },
    }),
    ...(cached && { 304: { description: 'Unchanged: the entity tag is in `If-None-Match`.', headers } }),
  };
}

function bodySchema(schema: RouteDescription['answer']['schema']): JsonSchema {
  if (schema === 'bytes') return { type: 'string', format: 'binary' };
  return schema === 'object' ? { type: 'object' } : refTo(schema);
}

/** One response for each status; with several codes, the body is one of their schemas. */
function describeRefusals(route: RouteDescription): Record<number, object> {
  const byStatus = Map.groupBy(codesOf(route), errorStatus);
  const described = [...byStatus].map(([status, codes]) => {
    const meant = codes.map((code) => `\`${code}\`: ${meanings[code]}`);
    const response = {
      description: [...meant, ...(status === 429 ? describeLimits(route) : [])].join('\n\n'),
      headers: refsTo([...headersOf(status, route.credential), ...ownHeaders(route)]),
      content: { 'application/json': { schema: errorSchemaOf(codes, route) } },
    };
    return [status, response] as const;
  });
  return Object.fromEntries(described);
}

/** One schema for each code; or the schema of all errors, with these codes. */
function errorSchemaOf(codes: readonly ErrorCode[], { errorSchema }: RouteDescription): JsonSchema {
  if (errorSchema !== undefined) {
    const error = { type: 'object', properties: { code: { enum: codes } } };
    return { allOf: [refTo(errorSchema), { type: 'object', properties: { error } }] };
  }
  const [schema = {}, ...others] = codes.map(refTo);
  return others.length === 0 ? schema : { oneOf: [schema, ...others] };
}

function describeLimits(route: RouteDescription): string[] {
  return [
    limitsOf(route)
      .map((type) => `- \`${type}\`: ${limitTypes[type]}`)
      .join('\n'),
  ];
}

function refsTo(names: readonly string[]): Record<string, object> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
