import { h } from 'preact';
import { accountLink } from '../page/route.ts';

/** An account of which operators see the page, with its display name beside the id. */
export function AccountLink({ account, name }: { account: string; name?: string | undefined }) {
  return [h('a', { href: accountLink(account) }, account), h(DisplayName, { name })];
}

/** Nothing for an account without a name. The name is text of its user: only the id says who it is. */
export function DisplayName({ name }: { name?: string | undefined }) {
  return name === undefined ? null : h('bdi', { class: 'quiet' }, ` (${name})`);
}
