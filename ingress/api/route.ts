import { z } from 'zod';
import type { Endpoint } from '../../shared/endpoints/definition/endpoint.ts';
import type { ApiError, ErrorCode } from '../../shared/errors.ts';
import type { LimitCounters } from '../../shared/limits/admission.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Caller } from '../../shared/store/records/account.ts';
import type { AppParts } from '../app-parts.ts';
import type { AppContext } from '../request-state.ts';
import type { LimitType } from './refusals.ts';

/**
 * Who may call a route. `either`: an API key or a sign-in token; `account`: the same, but no key that may use no files; `operator`: a
 * sign-in token of an operator.
 */
export type Access = 'none' | 'key' | 'signIn' | 'either' | 'account' | 'operator';

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

export type Tag =
  | 'Inference'
  | 'Requests'
  | 'Keys'
  | 'Files'
  | 'Batches'
  | 'Webhooks'
  | 'Billing'
  | 'Operators'
  | 'Documentation';

/** A parameter of a path. A value that does not have the `pattern` is answered with the error of `missing`. */
type PathParameter = { description: string; example: string; pattern?: RegExp; missing?: () => ApiError };

/** `form` for `multipart/form-data`, which the route reads itself, else JSON of at most `bytesMax`. */
type Body<Schema> = { schema: Schema; form?: true; bytesMax?: number; example?: unknown };

/** Server-sent events: the schemas of their data, and an example of a whole stream. */
export type StreamDescription = { events: readonly z.ZodType[]; description: string; example: string };

/** `schema`: JSON of this schema, the bytes of a file, or JSON that is not described further; `page`: HTML and its assets. */
type Answers<Schema> = {
  description: string;
  schema: Schema;
  /** Named schemas within it that the document has separately. */
  parts?: readonly z.ZodType[];
  /** Events on request. */
  stream?: StreamDescription;
  /** The same as a file of CSV on request, with an example of it. */
  csv?: string;
  /** Names of further headers. */
  headers?: readonly string[];
  /** 304 for a client that has it already. */
  cached?: true;
  /** 302 with the same body: for which clients, and the target. */
  redirect?: string;
  example?: unknown;
};

type AnswerSchema = z.ZodType | 'bytes' | 'object' | 'page';

/**
 * One route of the public listener. The router, the OpenAPI document, the reference, `405` and `Allow`, CORS and the tests of common
 * refusals are made from it (contract.md#a1-public-listener). `id` never changes: generated clients name their methods after it.
 */
type Definition<
  Rights extends Access,
  Path extends string,
  Query extends z.ZodType | undefined,
  Schema extends z.ZodType | undefined,
  Counted extends true | undefined,
  Answer extends AnswerSchema,
> = {
  id: string;
  method: Method;
  /** In the syntax of the router: `/v1/files/:file`. */
  path: Path;
  tag: Tag;
  summary: string;
  description?: string;
  access: Rights;
  query?: Query;
  body?: Body<Schema>;
  answers: Answers<Answer>;
  /** The errors of this route, beside those that follow from its access, its body and its limits. */
  refusals?: readonly ErrorCode[];
  /** The types of its own 429. `settings_limit` and `guest_calls` are counted before the body is read. */
  limits?: readonly LimitType[];
  /** The schema of all errors, if they have a shape of their own. */
  errorSchema?: z.ZodType | undefined;
  /** Further headers of every response. */
  headers?: readonly string[];
  /** Headers of the client that model servers get unchanged. */
  passedOn?: readonly string[];
  /**
   * Requests call a model: they are admitted, and wait in its queue. Admission checks the caller and reads the body as a call, so the
   * handler gets neither, and no other stage applies (router.ts).
   */
  endpoint?: Endpoint;
  /** It accepts an idempotency key. */
  repeatable?: true;
  /** It needs the counters of the caller's limits. */
  counted?: Counted;
  /** No limit counts its requests: those of one account take turns. */
  inTurns?: true;
  /** The response can contain a secret, or a file that may be deleted. */
  noStore?: true;
  /** Pages of any origin may call it. */
  anyOrigin?: true;
  /** It stores something for the account, so that one that counts as removed is in use again. */
  usesAccount?: true;
  /** Refuses every request if the operator has not enabled what it needs. Called before the body is read, or the request is counted. */
  guard?(parts: AppParts): void;
  /** Returns the body of the answer, or nothing if it has written the answer itself. */
  handle(
    request: RouteRequest<Rights, Path, Query, Schema, Counted>,
    parts: AppParts,
  ): AnswerOf<NoInfer<Answer>> | Promise<AnswerOf<NoInfer<Answer>>>;
} & ([ParameterOf<Path>] extends [never] ? unknown : { params: Readonly<Record<ParameterOf<Path>, PathParameter>> });

// biome-ignore lint/suspicious/noConfusingVoidType: a handler that writes its answer itself returns nothing
type AnswerOf<Answer> = Answer extends z.ZodType ? z.input<Answer> | undefined : undefined | void;

/** `file` for `/v1/files/:file/content`, `model` for `/v1/models/*model`. */
type ParameterOf<Path extends string> = Path extends `${string}/${infer Rest}`
  ? NameIn<Rest extends `${infer Segment}/${string}` ? Segment : Rest> | ParameterOf<Rest>
  : never;
type NameIn<Segment extends string> = Segment extends `${string}:${infer Name}` | `${string}*${infer Name}`
  ? Name
  : never;

/** What a handler gets of a request: only what its route declares. */
export type RouteRequest<Rights = Access, Path = string, Query = undefined, Schema = undefined, Counted = undefined> = {
  ctx: AppContext;
  requestId: string;
  /** The client's address. */
  address: string;
  planFile: PlanFile;
} & (Path extends string ? { params: Readonly<Record<ParameterOf<Path>, string>> } : unknown) &
  (Query extends z.ZodType ? { query: z.output<Query> } : unknown) &
  (Schema extends z.ZodType ? { body: z.output<Schema> } : unknown) &
  (Rights extends 'none' ? unknown : CheckedCaller) &
  (Rights extends 'signIn' | 'operator' ? { isOperator: boolean } : unknown) &
  (Counted extends true ? { counters: LimitCounters } : unknown);

/** `now` is Redis's time when the caller was checked, in milliseconds, and `at` the same as a date. */
export type CheckedCaller = { caller: Caller; now: number; at: Date };

/** A route without the types of its parts, for what reads all routes. */
export type Route = Omit<
  Definition<Access, string, z.ZodType, z.ZodType, true | undefined, AnswerSchema>,
  'handle' | 'params'
> & {
  params?: Readonly<Record<string, PathParameter>>;
  handle(request: RouteRequest, parts: AppParts): unknown;
};

/** Checks that a route uses only what it declares: a handler that reads a body which its route does not have is not compiled. */
export function route<
  const Rights extends Access,
  const Path extends string,
  Answer extends AnswerSchema,
  Query extends z.ZodType | undefined = undefined,
  Schema extends z.ZodType | undefined = undefined,
  Counted extends true | undefined = undefined,
>(definition: Definition<Rights, Path, Query, Schema, Counted, Answer>): Route {
  return definition as unknown as Route; // the router gives each handler what its route declares
}

/** In the order in which headers and texts list them. */
const allMethods = ['HEAD', 'GET', 'POST', 'PATCH', 'DELETE'];

/** These methods, each once and in the usual order. */
export function sortedMethods(methods: readonly string[]): string[] {
  return allMethods.filter((method) => methods.includes(method));
}

/** The methods of these routes; a route of `GET` also answers `HEAD`. */
export function methodsOf(routes: readonly Route[]): string[] {
  return sortedMethods(routes.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])));
}

const componentNames = z.registry<{ name: string }>();

/** Gives a schema its name in the OpenAPI document. */
export function named<Schema extends z.ZodType>(name: string, schema: Schema): Schema {
  componentNames.add(schema, { name });
  return schema;
}

/** The name of a schema in the OpenAPI document. */
export function nameOf(schema: z.ZodType): string {
  const name = componentNames.get(schema)?.name;
  if (name === undefined) throw new Error('a schema of a route has no name');
  return name;
}

/** Errors before a route is chosen, and errors that every route can have. */
const ofEveryRoute: readonly ErrorCode[] = ['REQUEST_TIMEOUT', 'HEADERS_TOO_LARGE', 'INTERNAL_ERROR'];
const ofSignIn: readonly ErrorCode[] = ['VALIDATION_ERROR', 'NO_AUTH', 'INVALID_TOKEN', 'FORBIDDEN'];
const ofKeys: readonly ErrorCode[] = [
  'VALIDATION_ERROR',
  'NO_AUTH',
  'INVALID_KEY',
  'KEY_EXPIRED',
  'INVALID_TOKEN',
  'FORBIDDEN',
];
const ofBodies: readonly ErrorCode[] = ['PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE'];

/** Errors of the request head: a missing or wrong credential, or a suspended account. */
const ofAccess: Readonly<Record<Access, readonly ErrorCode[]>> = {
  none: ['VALIDATION_ERROR'],
  key: ofKeys,
  signIn: ofSignIn,
  either: ofKeys,
  account: ofKeys,
  operator: ofSignIn,
};

/** All codes that a route can answer with, each once: its own and those that follow from what it declares. */
export function codesOf(route: Route): ErrorCode[] {
  const { access, body, refusals = [] } = route;
  const limited = limitsOf(route).length > 0 ? (['rate_limit_exceeded'] as const) : [];
  // A route without a credential that reads nothing depends on no other part of the service.
  const asksParts = access !== 'none' || body !== undefined;
  const unavailable = asksParts ? (['SERVICE_UNAVAILABLE'] as const) : [];
  const read = body === undefined ? [] : ofBodies;
  return [...new Set([...ofAccess[access], ...read, ...refusals, ...ofEveryRoute, ...limited, ...unavailable])];
}

/** A key that is not in memory is refused if its network has sent too many unknown keys. */
const takeKeys: readonly Access[] = ['key', 'either', 'account'];

/** All types that a 429 of this route can have. */
export function limitsOf({ access, limits = [] }: Route): LimitType[] {
  return takeKeys.includes(access) ? [...limits, 'auth_failures'] : [...limits];
}
