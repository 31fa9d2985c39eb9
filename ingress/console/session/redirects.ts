import type { Browser } from './browser.ts';
import { type IdentityProvider, type PendingSignIn, SignInEnded, type Tokens } from './identity-provider.ts';

const pendingName = 'sign-in under way';
const signedOutName = 'has signed out';

export const signedOut = 'You have signed out.';
const signedOutHere =
  'You have signed out here. The sign-in provider could not be reached: close the browser to end your session there.';
const notBegunHere =
  'This sign-in was not started in this tab, or the browser stores no data for this page. Sign in again.';

type Deps = { provider: Pick<IdentityProvider, 'begin' | 'finish' | 'revoke' | 'endSession'> } & Pick<
  Browser,
  'storage' | 'address' | 'replaceAddress' | 'leaveFor'
>;

/** The redirects to the issuer and back. */
export function createRedirects({ provider, storage, address, replaceAddress, leaveFor }: Deps) {
  function takePending(): PendingSignIn | undefined {
    const stored = storage.getItem(pendingName);
    storage.removeItem(pendingName);
    return stored === null ? undefined : (JSON.parse(stored) as PendingSignIn); // written by `begin`
  }

  return {
    async begin(options: { silently: boolean }): Promise<void> {
      const { url, pending } = await provider.begin({ hash: address().hash, ...options });
      storage.setItem(pendingName, JSON.stringify(pending));
      leaveFor(url.href, { inPlace: options.silently });
    },

    /** Whether the issuer has just sent the browser back from a sign-in. */
    isReturn(): boolean {
      const parameters = address().searchParams;
      return parameters.has('state') && (parameters.has('code') || parameters.has('error'));
    },

    /** The code leaves the address before it is used. Fails with `SignInEnded` if this tab started no sign-in. */
    async finish(): Promise<Tokens> {
      const parameters = address().searchParams;
      const pending = takePending();
      replaceAddress(`${address().pathname}${pending?.hash ?? ''}`);
      if (pending === undefined) throw new SignInEnded(notBegunHere);
      return await provider.finish(parameters, pending);
    },

    /** Leaves for the issuer to end its session there. If that is not possible, returns the message for the user. */
    async signOut(old: Tokens): Promise<string | undefined> {
      const [revoked, ending] = await Promise.allSettled([provider.revoke(old), provider.endSession()]);
      const url = ending.status === 'fulfilled' ? ending.value : undefined;
      if (url === undefined)
        return ending.status === 'fulfilled' && revoked.status === 'fulfilled' ? signedOut : signedOutHere;
      storage.setItem(signedOutName, 'yes');
      leaveFor(url.href, { inPlace: false });
      return undefined;
    },

    /** Whether `signOut` was the last redirect; true only once. */
    takeSignedOut(): boolean {
      const hasSignedOut = storage.getItem(signedOutName) !== null;
      storage.removeItem(signedOutName);
      return hasSignedOut;
    },
  };
}
