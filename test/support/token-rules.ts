import type { TokenRules } from '../../ingress/authentication/identity-of.ts';

/** The rules for sign-in tokens without settings. */
export const usualTokenRules: TokenRules = {
  clients: undefined,
  tokenLifeMaxS: 86_400,
  operators: [{ claim: 'scope', value: 'svc:admin' }],
  accountClaim: 'sub',
  nameClaim: undefined,
  acceptsUnmarked: false,
  audiences: undefined,
  consoleClientId: 'console',
};
