import { endpointNames, endpoints } from '../../shared/endpoints/routes.ts';
import type { StackModel } from '../stack/plan.ts';
import { formAt } from '../support/client-forms/every-form.ts';
import { usedKeys } from '../support/used-idempotency-keys.ts';
import {
  bodyCases,
  type Case,
  type Credentials,
  callTo,
  conflict,
  invalid,
  invalidKey,
  keyCases,
  limited,
  mismatch,
  notFound,
  ok,
  resultLost,
  spent,
} from './common-cases.ts';

/** A model of the guests and one of another plan, which offer every endpoint. */
export const models: Record<string, StackModel> = {
  'small-chat': { tier: 'guest', pool: 'default', endpoints: endpointNames },
  'large-chat': { tier: 'premium', pool: 'large', endpoints: endpointNames },
};

const counted = '/v1/messages/count_tokens';
const asked = { question: 'Hi', includeUsage: false, tokensMax: 50 };

/** A valid body for the endpoint at this path. Only a count has no form of its own: it has the prompt of a message. */
export function bodyFor(path: string, { model, stream = false }: { model: string; stream?: boolean }): object {
  if (path === counted) return { model, messages: [{ role: 'user', content: asked.question }] };
  const form = formAt(path);
  if (form === undefined) throw new Error(`there is no form for ${path}`);
  return form.bodyOf({ ...asked, model, stream });
}

type Cast = Credentials & Record<'guestKey' | 'spentKey', string>;

const keyed = (name: string) => [`Idempotency-Key: ${name}`];

/** The bodies of the cases, by path. */
export const bodies = new Map(endpoints.map(({ path }) => [path, bodyFor(path, { model: 'small-chat' })]));

/** The cases of every endpoint, by its route. */
export function endpointCases(cast: Cast): Record<string, Case[]> {
  return Object.fromEntries(endpoints.map(({ path }) => [`POST ${path}`, casesAt(path, cast)]));
}

/** Anthropic's clients act on a 404. */
const unknownModel = (path: string) => (path.startsWith('/v1/messages') ? notFound : invalid);

function casesAt(path: string, cast: Cast): Case[] {
  const body = bodyFor(path, { model: 'small-chat' });
  const call = callTo('POST', path);
  const as = (changed: object, bearer = cast.key) => call({ bearer, body: { ...body, ...changed } });
  const says = 'model: \\"medium-chat\\" does not offer ';
  return [
    ...keyCases(call, cast, body),
    ...bodyCases(call, body, cast.key),
    ok('a developer key', as({})),
    ok('a guest key', as({}, cast.guestKey)),
    spent('a used-up month', as({}, cast.spentKey)),
    invalid('no prompt', call({ bearer: cast.key, body: { model: 'small-chat' } }), { says: ': expected ' }),
    invalid('no model', as({ model: undefined }), { says: 'model: ' }),
    invalid('a field that is not listed', as({ priority: 1 }), { says: 'priority: is not accepted' }),
    // The plan file lists no endpoints of this model, so it offers only chat.
    ...(path === '/v1/chat/completions' ? [] : [invalid('a model without it', as({ model: 'medium-chat' }), { says })]),
    unknownModel(path)('an unknown model', as({ model: 'constructor' }), {
      says: 'here is no such model \\"constructor\\"; the plan \\"free\\" has small-chat, medium-chat',
    }),
    ok('an idempotency key', call({ bearer: cast.key, body, lines: keyed(`${path}-${'x'.repeat(200)}`) })),
    resultLost('the key of a lost answer', call({ bearer: cast.key, body, lines: keyed(usedKeys.lost + path) })),
    conflict('the key of a request that runs', call({ bearer: cast.key, body, lines: keyed(usedKeys.running + path) })),
    mismatch('the key of another body', call({ bearer: cast.key, body, lines: keyed(usedKeys.other + path) })),
    invalid('two idempotency keys', call({ bearer: cast.key, body, lines: [...keyed('a'), ...keyed('b')] }), {
      says: 'idempotency-key: must be 1 to 255 visible ASCII characters',
    }),
    invalid('an empty idempotency key', call({ bearer: cast.key, body, lines: keyed('') })),
    invalid('an idempotency key of 256 characters', call({ bearer: cast.key, body, lines: keyed('x'.repeat(256)) })),
    invalidKey('a sign-in token', as({}, cast.token)),
    ...[cast.guestKey, cast.key].map((key) =>
      limited('a model outside the plan', as({ model: 'large-chat' }, key), {
        check: (t, { error }) => {
          const { type, limit = type, retry_after_ms: wait } = error as Record<string, unknown>; // nested in each shape
          t.deepEqual([limit, wait], ['plan_limit', 0]);
        },
      }),
    ),
  ];
}
