import { h, render } from 'preact';
import { createApi } from './api/api.ts';
import { ConsoleApp } from './console-app.ts';
import { createRealBrowser, readSettings } from './session/browser.ts';
import { createIdentityProvider } from './session/identity-provider.ts';
import { createSession } from './session/session.ts';

// A page that Back restores shows old data, possibly of a user who has signed out.
window.addEventListener('pageshow', ({ persisted }) => persisted && window.location.reload());

const settings = readSettings(document);
// The issuer redirects only to this origin, and the pending sign-in is stored per origin.
if (new URL(settings.consoleUrl).origin === window.location.origin) await start();
else window.location.replace(`${settings.consoleUrl}${window.location.hash}`);

async function start(): Promise<void> {
  const session = createSession({ provider: createIdentityProvider(settings), ...createRealBrowser() });
  const api = createApi({ baseUrl: settings.baseUrl, session });
  // Before the first render, which depends on the address: this removes the parameters of the issuer from it.
  const started = session.start();
  const root = document.getElementById('app');
  if (root !== null) {
    root.replaceChildren();
    render(h(ConsoleApp, { session, api, settings }), root);
  }
  await started;
}
