import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { z } from 'zod';
import { createOpenApiDocument } from '../../../ingress/openapi/document.ts';

/** A complete response of the public listener. `path` is the requested one, with its query. */
export type SeenAnswer = {
  method: string;
  path: string;
  status: number;
  header(name: string): string | undefined;
  body: string;
};

const media = z.record(z.string(), z.object({}));
const responseSchema = z.object({ headers: z.record(z.string(), z.unknown()), content: media.default({}) });
const documentSchema = z.object({
  paths: z.record(z.string(), z.record(z.string(), z.object({ responses: z.record(z.string(), responseSchema) }))),
  components: z.object({ headers: z.record(z.string(), z.object({ required: z.boolean().default(false) })) }),
});

/** The document of the service, except for its addresses. */
export const openApiDocument: object = JSON.parse(
  JSON.stringify(
    createOpenApiDocument({
      baseUrl: 'https://api.example.com',
      docsUrl: 'https://docs.example.com',
      authUrl: 'https://id.example.com',
    }),
  ),
);

const { paths, components } = documentSchema.parse(openApiDocument);
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
// In OpenAPI a file is a string in binary format. Validation ignores definitions outside of schemas.
const formats = { date: /^\d{4}-\d\d-\d\d$/, 'date-time': time, binary: true } as const;
const ajv = new Ajv2020({ strict: false, allErrors: true, formats });
ajv.addSchema({ $id: 'openapi.json', ...openApiDocument });
const ajvOfHeaders = new Ajv2020({ strict: false, coerceTypes: true, formats });
ajvOfHeaders.addSchema({ $id: 'openapi.json', ...openApiDocument });
const compiled = new Map<string, ValidateFunction>();

const escaped = (name: string) => encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'));
const pointer = (...names: readonly string[]) => `openapi.json#/${names.map(escaped).join('/')}`;

const templates = Object.keys(paths).map((path) => {
  const source = path
    .replaceAll('.', '\\.')
    .replace('{model}', '.+')
    .replace(/\{\w+\}/g, '[^/]+');
  return { path, matches: new RegExp(`^${source}$`) };
});

/** Deviations of a response from the document, in words. Empty if it is as documented. */
export function undocumentedIn(answer: SeenAnswer): string[] {
  const method = answer.method === 'HEAD' ? 'get' : answer.method.toLowerCase();
  const pathname = answer.path.replace(/[?#].*$/s, '');
  const path = templates.find(({ matches }) => matches.test(pathname))?.path;
  const operation = path === undefined ? undefined : paths[path]?.[method];
  if (path === undefined || operation === undefined) return undocumentedOffRoute(answer, path);
  const response = operation.responses[answer.status];
  if (response === undefined) return [`the status ${answer.status} is not documented`];
  const place = ['paths', path, method, 'responses', String(answer.status)];
  return [...headerFaults(answer, Object.keys(response.headers)), ...bodyFaults(answer, response.content, place)];
}

/** Throws if a response is not as documented. Responses of the HTTP parser precede any route and are not checked here. */
export function requireDocumented(answer: SeenAnswer): void {
  const faults = undocumentedIn(answer);
  if (faults.length === 0) return;
  const { method, path, status, body } = answer;
  throw new Error(
    `${method} ${path.slice(0, 100)}: ${status} not as documented: ${faults.join('; ')}: ${body.slice(0, 500)}`,
  );
}

/** Deviations of one event of a stream from the document. `data` is the text after `data: `. */
export function undocumentedInEvent(data: string): string[] {
  if (data === '[DONE]') return [];
  const isError = Object.hasOwn(JSON.parse(data) as object, 'error'); // an event of the service, which is an object
  return faultsBy(pointer('components', 'schemas', isError ? 'StreamError' : 'ChatCompletionChunk'), JSON.parse(data));
}

/** Responses outside of operations, the same for every path. An invalid head is refused before any path is read. */
function undocumentedOffRoute(answer: SeenAnswer, path: string | undefined): string[] {
  if (answer.method === 'OPTIONS' && answer.status === 204) return answer.body === '' ? [] : ['it has a body'];
  const code = { 400: 'VALIDATION_ERROR', 404: 'NOT_FOUND', 405: 'METHOD_NOT_ALLOWED' }[answer.status];
  if (code === undefined) return [`the path is not documented, and answers ${answer.status}`];
  if (path !== undefined && code === 'NOT_FOUND') return ['the path exists, but the response says that it does not'];
  return answer.body === '' ? [] : faultsBy(pointer('components', 'schemas', code), JSON.parse(answer.body));
}

function headerFaults({ header }: SeenAnswer, documented: readonly string[]): string[] {
  return Object.entries(components.headers).flatMap(([name, { required }]) => {
    const value = header(name);
    if (value === undefined) return required && documented.includes(name) ? [`there is no ${name}`] : [];
    if (!documented.includes(name)) return [`${name} is not documented`];
    const validate = validatorOf(ajvOfHeaders, pointer('components', 'headers', name, 'schema'));
    return validate(value) ? [] : [`${name} is ${value}`];
  });
}

function bodyFaults(
  { method, status, header, body }: SeenAnswer,
  content: z.infer<typeof media>,
  place: readonly string[],
) {
  const [type = ''] = (header('content-type') ?? '').split(';');
  if (status === 304 || Object.keys(content).length === 0) return body === '' ? [] : ['it has a body'];
  if (content[type] === undefined) return [`the type "${type}" is not documented`];
  if (method === 'HEAD' || type === 'application/octet-stream') return [];
  if (type === 'text/event-stream') return eventsOf(body).flatMap(undocumentedInEvent);
  return faultsBy(pointer(...place, 'content', type, 'schema'), JSON.parse(body));
}

function eventsOf(body: string): string[] {
  return body
    .split('\n\n')
    .filter((event) => event.startsWith('data: '))
    .map((event) => event.slice('data: '.length));
}

function faultsBy(schema: string, value: unknown): string[] {
  const validate = validatorOf(ajv, schema);
  if (validate(value)) return [];
  return (validate.errors ?? []).map(({ instancePath, message, params }) =>
    [instancePath, message, JSON.stringify(params)].join(' '),
  );
}

/** Compiled at first use: most tests see only a few responses. */
function validatorOf(by: Ajv2020, $ref: string): ValidateFunction {
  const known = compiled.get($ref) ?? by.compile({ $ref });
  compiled.set($ref, known);
  return known;
}
