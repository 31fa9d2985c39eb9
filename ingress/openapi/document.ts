import { serviceVersion } from '../../shared/process/metrics.ts';
import { withoutSlash } from '../api/without-slash.ts';
import { keyHeaders } from '../callers/authorization.ts';
import { describeOperation } from './description/describe-operation.ts';
import { headerComponents } from './description/headers.ts';
import { toComponents } from './description/json-schema.ts';
import { refusalSchemas } from './description/refusals.ts';
import type { RouteDescription, Tag } from './description/route-description.ts';
import { answerSchemas, requestSchemas } from './description/schemas.ts';
import { endpointAnswerSchemas, endpointRequestSchemas } from './endpoints/descriptions.ts';
import { documentedRoutes } from './routes.ts';

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
export function createOpenApiDocument({ baseUrl, docsUrl, authUrl }: Addresses): object {
  return {
    openapi: '3.1.1',
    info: { title: 'Inference API', version: serviceVersion(), description: about },
    externalDocs: { description: 'Documentation', url: docsUrl },
    servers: [{ url: withoutSlash(baseUrl) }, { url: `${withoutSlash(baseUrl)}/openai`, description: nestedErrors }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths: pathsOf(documentedRoutes),
    components: {
      schemas: {
        ...toComponents({ ...requestSchemas, ...endpointRequestSchemas }, 'input'),
        ...toComponents({ ...answerSchemas, ...endpointAnswerSchemas, ...refusalSchemas }, 'output'),
      },
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

function pathsOf(routes: Readonly<Record<string, RouteDescription>>): Record<string, object> {
  const paths: Record<string, Record<string, object>> = {};
  for (const [name, route] of Object.entries(routes)) {
    const [method = '', pattern = ''] = name.split(' ');
    const path = templateOf(pattern);
    paths[path] = { ...paths[path], [method.toLowerCase()]: describeOperation(path, route) };
  }
  return paths;
}

/** A path in the syntax of OpenAPI: `/v1/files/{file}` for `/v1/files/:file`. A prefix of a parameter is part of it: `key_:key`. */
function templateOf(pattern: string): string {
  return pattern.replace(/\w*[:*](\w+)/g, '{$1}');
}
