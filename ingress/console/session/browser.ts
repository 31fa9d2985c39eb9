export type PageStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;

/** The parts of a browser that the session uses. */
export type Browser = {
  /** Storage of this tab only. Never holds a token: only the state of a pending sign-in, and flags of this tab. */
  storage: PageStorage;
  /** Storage of all tabs. Never holds a token: only that a user is signed in. */
  sharedStorage: PageStorage;
  address: () => URL;
  /** Whether the user has reloaded this page: so no other page was shown meanwhile. */
  isReload: () => boolean;
  /** Adds no entry to the history. */
  replaceAddress: (url: string) => void;
  /** `inPlace`: Back leads to the previous page, and not to this one again. */
  leaveFor: (url: string, options: { inPlace: boolean }) => void;
  later: (run: () => void, ms: number) => () => void;
  /** Other tabs of this page: a sign-out in one tab ends the sign-in of the others. */
  otherTabs: { announceSignOut: () => void; onSignOut: (run: () => void) => void };
};
