import { errorStatus } from '../../../shared/errors.ts';
import { type HeaderName, headersOf } from './headers.ts';
import { type JsonSchema, propertiesOf, refTo, toJsonSchema } from './json-schema.ts';
import { limitTypes, meanings } from './refusals.ts';
import { codesOf, limitsOf } from './route-codes.ts';
import type { Credential, RouteDescription } from './route-description.ts';

/** One route as an Operation Object (OpenAPI 3.1, 4.8.10); `path` in the syntax of OpenAPI. */
export function describeOperation(path: string, route: RouteDescription): object {
  const { id, tag, summary, description, credential, body } = route;
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    security: securities[credential],
    parameters: [
      ...pathParameters(path),
      ...queryParameters(route),
      { $ref: '#/components/parameters/clientRequestId' },
    ],
    ...(body !== undefined && { requestBody: describeBody(body) }),
    responses: { ...describeAnswer(route), ...describeRefusals(route) },
  };
}

const withKey = { apiKey: [] };
const signedIn = { signIn: [] };
const securities: Record<Credential, object[]> = {
  none: [],
  key: [withKey],
  signIn: [signedIn],
  either: [withKey, signedIn],
  account: [withKey, signedIn],
  operator: [{ signIn: ['svc:admin'] }],
};

const pathDescriptions: Record<string, string> = {
  model: 'The name of a model. It can contain slashes.',
  file: 'The id of a file.',
  batch: 'The id of a batch.',
  account: '`user:<sub>`, or `device:<SHA-256 of its id>`.',
};

function pathParameters(path: string): object[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    description: pathDescriptions[name],
    schema: { type: 'string' },
  }));
}

function queryParameters({ query }: RouteDescription): object[] {
  if (query === undefined) return [];
  return Object.entries(propertiesOf(toJsonSchema(query, 'input'))).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    description,
    schema,
  }));
}

function describeBody({ schema, form, example }: NonNullable<RouteDescription['body']>): object {
  const type = form ? 'multipart/form-data' : 'application/json';
  return {
    required: true,
    content: { [type]: { schema: refTo(schema), ...(example !== undefined && { example }) } },
  };
}

const eventStream = {
  schema: { type: 'string', description: 'Events, each a `ChatCompletionChunk`, at last `[DONE]` or a `StreamError`.' },
  example: 'data: {"model":"small-chat","choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\ndata: [DONE]\n\n',
};

/** Only routes that can stream are queued. */
function ofQueue({ stream }: RouteDescription['answer']): HeaderName[] {
  return stream ? ['x-svc-queue-ms'] : [];
}

function describeAnswer({ answer, credential }: RouteDescription): object {
  const { description, schema, stream, cached, redirect, example } = answer;
  const isFile = schema === 'bytes';
  const ofFile: HeaderName[] = isFile ? ['content-disposition'] : cached ? ['etag'] : [];
  const common = headersOf(200, credential);
  const headers = refsTo([...common, ...ofFile, ...ofQueue(answer)]);
  const content = {
    [isFile ? 'application/octet-stream' : 'application/json']: {
      schema: bodySchema(schema),
      ...(example !== undefined && { example }),
    },
    ...(stream && { 'text/event-stream': eventStream }),
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
    const schemas = codes.map(refTo);
    const meant = codes.map((code) => `\`${code}\`: ${meanings[code]}`);
    const response = {
      description: [...meant, ...(status === 429 ? describeLimits(route) : [])].join('\n\n'),
      headers: refsTo([...headersOf(status, route.credential), ...ofQueue(route.answer)]),
      content: { 'application/json': { schema: schemas.length === 1 ? schemas[0] : { oneOf: schemas } } },
    };
    return [status, response] as const;
  });
  return Object.fromEntries(described);
}

function describeLimits(route: RouteDescription): string[] {
  return [
    limitsOf(route)
      .map((type) => `- \`${type}\`: ${limitTypes[type]}`)
      .join('\n'),
  ];
}

function refsTo(names: readonly HeaderName[]): Record<string, object> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
