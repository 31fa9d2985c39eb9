import type { ParameterizedContext } from 'koa';
import type { Admission } from '../shared/limits/admit.ts';
import type { ChatCall } from './chat-call.ts';
import type { JsonBody } from './json-body.ts';

/** Who calls: the account behind a key or a sign-in token, with its plan as it is now. `keyId` where a key was used. */
export type Caller = { account: string; plan: string; keyId?: string };

/** What the stages of one request leave for those after them; each is written once, by the stage that it is named for. */
export type RequestState = {
  requestId: string;
  clientRequestId?: string;
  caller?: Caller;
  account?: string;
  body?: JsonBody;
  call?: ChatCall;
  admission?: Admission;
};

export type AppContext = ParameterizedContext<RequestState>;
export type Stage = (ctx: AppContext, next: () => Promise<void>) => Promise<void>;

/** What an earlier stage has left; that the stage is missing from the route is our fault and not the client's. */
export function stateOf<Name extends keyof RequestState>(ctx: AppContext, name: Name): NonNullable<RequestState[Name]> {
  const value = ctx.state[name];
  if (value === undefined || value === null) throw new Error(`no stage before this one has set "${name}"`);
  return value;
}
