import { h, render } from 'preact';
import { createApi } from './api/api.ts';
import { App } from './app.ts';
import { createBrowserSurroundings } from './session/browser.ts';
import { createIdentityProvider } from './session/identity-provider.ts';
import { readSettings } from './session/read-settings.ts';
import { createSession } from './session/session.ts';

// A page that Back brings to life again shows what was, and may belong to nobody any more.
window.addEventListener('pageshow', ({ persisted }) => persisted && window.location.reload());

const settings = readSettings(document);
// The issuer sends people back to that one origin, and what a sign-in is known by is kept for one origin.
if (new URL(settings.consoleUrl).origin === window.location.origin) await start();
else window.location.replace(`${settings.consoleUrl}${window.location.hash}`);

async function start(): Promise<void> {
  const session = createSession({ provider: createIdentityProvider(settings), ...createBrowserSurroundings() });
  const api = createApi({ baseUrl: settings.baseUrl, session });
  // The address that the issuer sent the browser back to is gone before anything is shown, which goes by the address.
  const started = session.start();
  const root = document.getElementById('app');
  if (root !== null) {
    root.replaceChildren();
    render(h(App, { session, api, settings }), root);
  }
  await started;
}
