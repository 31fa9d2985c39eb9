import { z } from 'zod';
import { type ErrorCode, errorStatus } from '../../shared/errors.ts';
import { serviceVersion } from '../../shared/process/metrics.ts';
import { keyHeaders } from '../authentication/authorization.ts';
import { withoutSlash } from '../listener/request-headers.ts';
import { type JsonSchema, propertiesOf, refTo, toComponents, toJsonSchema } from './json-schema.ts';
import { limitTypes, meanings, nestedError, refusalSchemas } from './refusals.ts';
import { headerComponents, headersOf } from './response-headers.ts';
import { type Access, codesOf, limitsOf, nameOf, type Route, type StreamDescription, type Tag } from './route.ts';

type Addresses = { baseUrl: string; docsUrl: string; authUrl: string };

const tags: Record<Tag, string> = {
  Inference: 'Endpoints that call a model, and the models. `endpoints` of a model lists those that it offers.',
  Requests: 'How a request ended, what it used, and where it is until then.',
  Keys: 'The API key of an account, managed with a sign-in token; and the keys of devices.',
  Files: 'Input and results of batches.',
  Batches: 'Many requests in one file, run within a day.',
  Webhooks: 'Addresses that events of an account are sent to.',
  Billing: 'Limits and usage of an account.',
  Operators:
    'For sign-in tokens of operators: those with the scope `svc:admin`, unless the service is configured otherwise.',
  Documentation: 'This document, and links to the others.',
};

const about = `Keys, inference, batches and usage. Every response has an \`x-request-id\`; an \`x-client-request-id\` of the client is returned
with it. Errors have a stable \`code\`, in one of two shapes: \`{"error": "…", "code": "…"}\`, or \`{"error": {"code": "…", …}}\`
for \`rate_limit_exceeded\` and \`quota_exceeded\`. Below \`/openai/v1\` the same routes as below \`/v1\` are served, and every error is nested
as OpenAI's SDKs read it: a \`NestedError\`. Errors of \`/v1/messages\` and below are in Anthropic's shape: a \`MessageError\`. A method that
a path does not support gets 405 \`METHOD_NOT_ALLOWED\`, and a WebSocket handshake 426 \`UPGRADE_REQUIRED\`.`;

const nestedErrors = "The same routes below `/v1`, with errors as OpenAI's SDKs read them: `NestedError`.";

/**
 * The API as an OpenAPI 3.1 document: plain JSON, made from the schemas of requests and responses
 * (decisions.md#the-openapi-document-from-the-schemas).
 */
export function createOpenApiDocument(routes: readonly Route[], { baseUrl, docsUrl, authUrl }: Addresses): object {
  const documented = routes.filter(({ answers }) => answers.schema !== 'page');
  return {
    openapi: '3.1.1',
    info: { title: 'Inference API', version: serviceVersion(), description: about },
    externalDocs: { description: 'Documentation', url: docsUrl },
    servers: [{ url: withoutSlash(baseUrl) }, { url: `${withoutSlash(baseUrl)}/openai`, description: nestedErrors }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths: pathsOf(documented),
    components: {
      schemas: schemasOf(documented),
      headers: headerComponents,
      parameters: { clientRequestId },
      securitySchemes: securitySchemesFor(authUrl),
    },
  };
}

const clientRequestId = {
  name: 'x-client-request-id',
  in: 'header',
  description: 'An id of the request chosen by the client: returned and logged.',
  schema: { type: 'string', pattern: '^[\\x21-\\x7e]{1,512}$' },
};

function securitySchemesFor(authUrl: string): object {
  return {
    apiKey: {
      type: 'http',
      scheme: 'bearer',
      description: 'An API key: `Authorization: Bearer svc_…`.',
    },
    signIn: {
      type: 'openIdConnect',
      openIdConnectUrl: `${withoutSlash(authUrl)}/.well-known/openid-configuration`,
      description: 'An access token of the identity provider for this API: `Authorization: Bearer <token>`.',
    },
    ...Object.fromEntries(keyHeaders.map((name) => [name, keyIn(name)])),
  };
}

function keyIn(name: string): object {
  return {
    type: 'apiKey',
    in: 'header',
    name,
    description: `An API key: \`${name}: svc_…\`, instead of \`Authorization\`.`,
  };
}

function pathsOf(routes: readonly Route[]): Record<string, object> {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const path = templateOf(route.path);
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: describeOperation(path, route) };
  }
  return paths;
}

/** The named schemas of all routes, and of errors. */
function schemasOf(routes: readonly Route[]): Record<string, JsonSchema> {
  const byName = (schemas: readonly unknown[]) =>
    Object.fromEntries(schemas.flatMap((schema) => (schema instanceof z.ZodType ? [[nameOf(schema), schema]] : [])));
  const answers = routes.flatMap(({ answers: { schema, parts = [] }, errorSchema }) => [schema, ...parts, errorSchema]);
  return {
    ...toComponents(byName(routes.map(({ body }) => body?.schema)), 'input'),
    ...toComponents({ ...byName(answers), NestedError: nestedError, ...refusalSchemas }, 'output'),
  };
}

/** A path in the syntax of OpenAPI: `/v1/files/{file}` for `/v1/files/:file`. A prefix of a parameter is part of it: `key_:key`. */
function templateOf(pattern: string): string {
  return pattern.replace(/\w*[:*](\w+)/g, '{$1}');
}

/** One route as an Operation Object (OpenAPI 3.1, 4.8.10); `path` in the syntax of OpenAPI. */
function describeOperation(path: string, route: Route): object {
  const { id, tag, summary, description, body } = route;
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    security: securities[route.access],
    parameters: [
      ...pathParameters(path, route),
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
const securities: Record<Access, object[]> = {
  none: [],
  key: withKey,
  signIn: [signedIn],
  either: [...withKey, signedIn],
  account: [...withKey, signedIn],
  operator: [{ signIn: ['svc:admin'] }],
};

function pathParameters(path: string, { params = {} }: Route): object[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => {
    const { description, example } = params[name] ?? {};
    return { name, in: 'path', required: true, description, example, schema: { type: 'string' } };
  });
}

function queryParameters({ query }: Route): object[] {
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

function headerParameters({ passedOn = [], repeatable }: Route): object[] {
  const description = 'The model server gets it unchanged.';
  const schema = { type: 'string', maxLength: 1_024 };
  return [
    ...(repeatable ? [idempotencyKey] : []),
    ...passedOn.map((name) => ({ name, in: 'header', description, schema })),
  ];
}

function describeBody({ schema, form, example }: NonNullable<Route['body']>): object {
  const type = form ? 'multipart/form-data' : 'application/json';
  return {
    required: true,
    content: { [type]: { schema: refTo(nameOf(schema)), ...(example !== undefined && { example }) } },
  };
}

/** In OpenAPI 3.1 a stream is a text. The extension names the schemas of the data of its events. */
function describeStream({ events, description, example }: StreamDescription): object {
  return {
    schema: { type: 'string', description },
    example,
    'x-event-schema': { anyOf: events.map((schema) => refTo(nameOf(schema))) },
  };
}

/** Further headers of every response of a route. */
function ownHeaders({ headers = [], endpoint }: Route): string[] {
  return [...headers, ...(endpoint !== undefined ? ['x-svc-queue-ms', 'x-svc-dropped'] : [])];
}

function describeAnswer(route: Route): object {
  const { description, schema, stream, csv, cached, redirect, example, headers: further = [] } = route.answers;
  const isFile = schema === 'bytes';
  const ofFile = isFile || csv !== undefined ? ['content-disposition'] : cached ? ['etag'] : [];
  const common = headersOf(200, route.access);
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

function bodySchema(schema: Route['answers']['schema']): JsonSchema {
  if (schema === 'bytes') return { type: 'string', format: 'binary' };
  return typeof schema === 'string' ? { type: 'object' } : refTo(nameOf(schema));
}

/** One response for each status; with several codes, the body is one of their schemas. */
function describeRefusals(route: Route): Record<number, object> {
  const byStatus = Map.groupBy(codesOf(route), errorStatus);
  const described = [...byStatus].map(([status, codes]) => {
    const meant = codes.map((code) => `\`${code}\`: ${meanings[code]}`);
    const response = {
      description: [...meant, ...(status === 429 ? describeLimits(route) : [])].join('\n\n'),
      headers: refsTo([...headersOf(status, route.access), ...ownHeaders(route)]),
      content: { 'application/json': { schema: errorSchemaOf(codes, route) } },
    };
    return [status, response] as const;
  });
  return Object.fromEntries(described);
}

/** One schema for each code; or the schema of all errors, with these codes. */
function errorSchemaOf(codes: readonly ErrorCode[], { errorSchema }: Route): JsonSchema {
  if (errorSchema !== undefined) {
    const error = { type: 'object', properties: { code: { enum: codes } } };
    return { allOf: [refTo(nameOf(errorSchema)), { type: 'object', properties: { error } }] };
  }
  const [schema = {}, ...others] = codes.map(refTo);
  return others.length === 0 ? schema : { oneOf: [schema, ...others] };
}

function describeLimits(route: Route): string[] {
  return [
    limitsOf(route)
      .map((type) => `- \`${type}\`: ${limitTypes[type]}`)
      .join('\n'),
  ];
}

function refsTo(names: readonly string[]): Record<string, object> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
