/** How the service presents itself: its name as plain text, an image in place of the mark, and where to ask for help (https or mailto). */
export type Product = { name: string; logoUrl?: string | undefined; supportUrl?: string | undefined };

/** Settings of the service for the page. None of them is secret. */
export type ConsoleSettings = {
  /** Address of the API, without a slash at the end. */
  baseUrl: string;
  /** Address of the page, to which the issuer redirects. */
  consoleUrl: string;
  docsUrl: string;
  product: Product;
  issuer: string;
  consoleClientId: string;
  /** The scopes that it requests, with spaces between them. */
  consoleScopes: string;
  /** The API whose tokens it requests, as the issuer knows it. Empty: it names none. */
  consoleResource: string;
};

/** Reads the settings that the service wrote into the head of the page. */
export function readSettings(page: Document): ConsoleSettings {
  const content = page.querySelector<HTMLMetaElement>('meta[name="console-settings"]')?.content ?? '';
  return JSON.parse(content) as ConsoleSettings; // written by the service that served this page
}

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

const channelName = 'console';

export function createRealBrowser(): Browser {
  const channel = new BroadcastChannel(channelName);
  return {
    storage: findStorage(() => window.sessionStorage),
    sharedStorage: findStorage(() => window.localStorage),
    address: () => new URL(window.location.href),
    isReload: () =>
      performance.getEntriesByType('navigation').some((entry) => 'type' in entry && entry.type === 'reload'),
    replaceAddress: (url) => window.history.replaceState(null, '', url),
    leaveFor: (url, { inPlace }) => (inPlace ? window.location.replace(url) : window.location.assign(url)),
    later(run, ms) {
      const timer = window.setTimeout(run, ms);
      return () => window.clearTimeout(timer);
    },
    otherTabs: {
      announceSignOut: () => channel.postMessage('signed out'),
      onSignOut: (run) => channel.addEventListener('message', run),
    },
  };
}

/** If the browser has disabled page storage, the page still loads, but no sign-in can complete. */
function findStorage(find: () => PageStorage): PageStorage {
  try {
    const storage = find();
    storage.getItem('');
    return storage;
  } catch {
    const kept = new Map<string, string>();
    return {
      getItem: (name) => kept.get(name) ?? null,
      setItem: (name, value) => void kept.set(name, value),
      removeItem: (name) => void kept.delete(name),
    };
  }
}
