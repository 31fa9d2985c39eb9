import { endpointNames, endpoints } from '../../shared/endpoints/routes.ts';
import type { StackModel } from '../stack/plan.ts';
import {
  bodyCases,
  type Case,
  type Credentials,
  callTo,
  invalid,
  invalidKey,
  keyCases,
  limited,
  ok,
  spent,
} from './common-cases.ts';

/** A model of the guests and one of another plan, which offer every endpoint. */
export const models: Record<string, StackModel> = {
  'small-chat': { tier: 'guest', pool: 'default', endpoints: endpointNames },
  'large-chat': { tier: 'premium', pool: 'large', endpoints: endpointNames },
};

type Body = { body: object; promptField: string };

/** A valid body for each endpoint by its path, with the field that holds the prompt. */
export function bodiesFor(model: string): Readonly<Record<string, Body>> {
  const conversation = { model, messages: [{ role: 'user', content: 'Hi' }] };
  return {
    '/v1/chat/completions': { body: conversation, promptField: 'messages' },
    '/v1/completions': { body: { model, prompt: 'Hi' }, promptField: 'prompt' },
    '/v1/embeddings': { body: { model, input: ['Hi', 'Good bye'] }, promptField: 'input' },
    '/v1/responses': { body: { model, input: 'Hi' }, promptField: 'input' },
    '/v1/messages': { body: { ...conversation, max_tokens: 50 }, promptField: 'messages' },
    '/v1/messages/count_tokens': { body: conversation, promptField: 'messages' },
  };
}

const bodies = bodiesFor('small-chat');

type Cast = Credentials & Record<'guestKey' | 'spentKey', string>;

/** The cases of every endpoint, by its route. */
export function endpointCases(cast: Cast): Record<string, Case[]> {
  return Object.fromEntries(endpoints.map(({ path }) => [`POST ${path}`, casesAt(path, cast)]));
}

function casesAt(path: string, cast: Cast): Case[] {
  const { body = {}, promptField = '' } = bodies[path] ?? {};
  const call = callTo('POST', path);
  const says = 'model: \\"medium-chat\\" does not offer ';
  const as = (changed: object, bearer = cast.key) => call({ bearer, body: { ...body, ...changed } });
  return [
    ...keyCases(call, cast, body),
    ...bodyCases(call, body, cast.key),
    ok('a developer key', as({})),
    ok('a guest key', as({}, cast.guestKey)),
    spent('a used-up month', as({}, cast.spentKey)),
    invalid('no prompt', as({ [promptField]: undefined }), { says: `${promptField}: ` }),
    invalid('no model', as({ model: undefined }), { says: 'model: ' }),
    invalid('a field that is not listed', as({ priority: 1 }), { says: 'priority: is not accepted' }),
    // The plan file lists no endpoints of this model, so it offers only chat.
    ...(path === '/v1/chat/completions' ? [] : [invalid('a model without it', as({ model: 'medium-chat' }), { says })]),
    invalid('an unknown model', as({ model: 'constructor' }), {
      says: 'model: there is no such model \\"constructor\\"; the plan \\"free\\" has small-chat, medium-chat"',
    }),
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
