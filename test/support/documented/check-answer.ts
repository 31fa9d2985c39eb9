import { codesOf, nameOf } from '../../../ingress/api/route.ts';
import { errorStatus } from '../../../shared/errors.ts';
import { documentedRoutes, templateOf } from '../api-routes.ts';
import { type Content, component, components, faultsBy, isHeaderValue, paths, pointer } from './schema-faults.ts';

/** A complete response of the public listener. `path` is the requested one, with its query. */
export type SeenAnswer = {
  method: string;
  path: string;
  status: number;
  header(name: string): string | undefined;
  body: string;
};

/** The same API with errors as OpenAI's SDKs read them. */
const openAiBase = '/openai';

const templates = Object.keys(paths).map((path) => {
  const source = path
    .replaceAll('.', '\\.')
    .replace('{model}', '.+')
    .replace('{key}', 'key_[^/]*')
    .replace(/\{\w+\}/g, '[^/]+');
  return { path, matches: new RegExp(`^${source}$`) };
});

/** Routes by method and path in the syntax of OpenAPI. */
const routes = new Map(Object.entries(documentedRoutes).map(([route, described]) => [templateOf(route), described]));

/** A path without its query and its base path, and what the document says of it. */
function placeOf(requested: string) {
  const whole = requested.replace(/[?#].*$/s, '');
  const isNested = whole.startsWith(`${openAiBase}/v1/`);
  const pathname = isNested ? whole.slice(openAiBase.length) : whole;
  return { pathname, isNested, template: templates.find(({ matches }) => matches.test(pathname))?.path };
}

/** Deviations of a response from the document, in words. Empty if it is as documented. */
export function undocumentedIn(answer: SeenAnswer): string[] {
  const method = answer.method === 'HEAD' ? 'get' : answer.method.toLowerCase();
  const { template, isNested } = placeOf(answer.path);
  const operation = template === undefined ? undefined : paths[template]?.[method];
  if (template === undefined || operation === undefined) return undocumentedOffRoute(answer);
  const response = operation.responses[answer.status];
  if (response === undefined) return [`the status ${answer.status} is not documented`];
  const headers = headerFaults(answer, Object.keys(response.headers));
  if (isNested && answer.status >= 400) return [...headers, ...nestedFaults(answer, `${answer.method} ${template}`)];
  const place = ['paths', template, method, 'responses', String(answer.status)];
  return [...headers, ...bodyFaults(answer, response.content, place)];
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

/** Deviations of one event of a stream from the document: of its lines, without the empty one. */
export function undocumentedInEvent(path: string, event: string): string[] {
  const { template = '' } = placeOf(path);
  const type = 'text/event-stream';
  const { example } = paths[template]?.post?.responses['200']?.content[type] ?? {};
  if (typeof example !== 'string') return [`${path} has no documented stream`];
  const [name] = valuesIn(event, 'event');
  const data = valuesIn(event, 'data').join('\n');
  if (data === '') return name === undefined ? [] : [`the event ${name} has no data`];
  if (data === '[DONE]') return example.includes('data: [DONE]') ? [] : ['[DONE] is not documented'];
  const value: unknown = JSON.parse(data);
  return [
    ...nameFaults(name, { example, value }),
    ...faultsBy(pointer('paths', template, 'post', 'responses', '200', 'content', type, 'x-event-schema'), value),
  ];
}

function valuesIn(event: string, field: string): string[] {
  const start = `${field}: `;
  return event.split('\n').flatMap((line) => (line.startsWith(start) ? [line.slice(start.length)] : []));
}

/** Events have names if those of the example have. A name is the type in the data. */
function nameFaults(name: string | undefined, { example, value }: { example: string; value: unknown }): string[] {
  const { type } = Object(value) as { type?: unknown };
  const expected = example.startsWith('event: ') ? type : undefined;
  return name === expected ? [] : [`an event of the type ${type} has the name ${name}`];
}

const codesOffRoute: Readonly<Record<number, string>> = {
  400: 'VALIDATION_ERROR',
  404: 'NOT_FOUND',
  405: 'METHOD_NOT_ALLOWED',
  426: 'UPGRADE_REQUIRED',
};

/** Responses outside of operations, the same for every path. An invalid head is refused before any path is read. */
function undocumentedOffRoute({ method, status, path, body }: SeenAnswer): string[] {
  if (method === 'OPTIONS' && status === 204) return body === '' ? [] : ['it has a body'];
  const code = codesOffRoute[status];
  const { pathname, isNested, template } = placeOf(path);
  if (code === undefined) return [`the path is not documented, and answers ${status}`];
  if (template !== undefined && code === 'NOT_FOUND')
    return ['the path exists, but the response says that it does not'];
  if (body === '') return [];
  return faultsBy(component(isNested ? 'NestedError' : (errorSchemaAt(pathname) ?? code)), JSON.parse(body));
}

/** The schema of errors of a path whose errors have a shape of their own, and of the paths below it. */
function errorSchemaAt(pathname: string): string | undefined {
  const found = [...routes].find(([route, { errorSchema }]) => {
    const own = route.slice(route.indexOf(' ') + 1);
    return errorSchema !== undefined && (pathname === own || pathname.startsWith(`${own}/`));
  });
  const schema = found?.[1].errorSchema;
  return schema && nameOf(schema);
}

/** Below the base path for OpenAI's SDKs all errors have one shape, with the codes of the route. */
function nestedFaults({ status, body }: SeenAnswer, route: string): string[] {
  const value = JSON.parse(body) as { error?: { code?: string } };
  const described = routes.get(route);
  const codes = (described === undefined ? [] : codesOf(described)).filter((code) => errorStatus(code) === status);
  const isKnown = codes.some((code) => code === value.error?.code);
  return [...faultsBy(component('NestedError'), value), ...(isKnown ? [] : [`the code ${value.error?.code}`])];
}

function headerFaults({ header }: SeenAnswer, documented: readonly string[]): string[] {
  return Object.entries(components.headers).flatMap(([name, { required }]) => {
    const value = header(name);
    if (value === undefined) return required && documented.includes(name) ? [`there is no ${name}`] : [];
    if (!documented.includes(name)) return [`${name} is not documented`];
    return isHeaderValue(name, value) ? [] : [`${name} is ${value}`];
  });
}

function bodyFaults({ method, path, status, header, body }: SeenAnswer, content: Content, place: readonly string[]) {
  const [type = ''] = (header('content-type') ?? '').split(';');
  if (status === 304 || Object.keys(content).length === 0) return body === '' ? [] : ['it has a body'];
  if (content[type] === undefined) return [`the type "${type}" is not documented`];
  if (method === 'HEAD' || type === 'application/octet-stream' || type === 'text/csv') return [];
  if (type === 'text/event-stream') return body.split('\n\n').flatMap((event) => undocumentedInEvent(path, event));
  return faultsBy(pointer(...place, 'content', type, 'schema'), JSON.parse(body));
}
