import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import type { KoaContextWithOIDC, Provider } from 'oidc-provider';

/** The pages have their own inline style and script, and load nothing. */
export const signInPagesPolicy =
  "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

const path = /^\/interaction\/[\w-]+$/;

export function interactionUrl(_ctx: unknown, { uid }: { uid: string }): string {
  return `/interaction/${uid}`;
}

/**
 * Answers the pages of the provider. Any name can sign in, and there is no consent page, because the console belongs to the service.
 * Returns false for any other request.
 */
export async function answerSignIn(provider: Provider, req: IncomingMessage, res: ServerResponse): Promise<boolean> {
  if (!path.test(req.url ?? '')) return false;
  try {
    const { prompt, session, params } = await provider.interactionDetails(req, res);
    if (prompt.name === 'consent') {
      const grant = new provider.Grant({ accountId: session?.accountId, clientId: String(params.client_id) });
      await provider.interactionFinished(req, res, { consent: { grantId: await grant.save() } });
    } else if (req.method === 'POST') {
      const name = new URLSearchParams(await text(req)).get('login')?.trim() ?? '';
      if (name === '') show(res, 400, signInPage);
      else await provider.interactionFinished(req, res, { login: { accountId: name } });
    } else {
      show(res, 200, signInPage);
    }
  } catch {
    show(
      res,
      400,
      page('Sign in', '<p>This sign-in has expired. Go back to where you came from and sign in again.</p>'),
    );
  }
  return true;
}

/** Sends the form at once, as other providers do if the ID token identifies the user. */
export function logoutSource(ctx: KoaContextWithOIDC, form: string): void {
  const submit = '<button type="submit" form="op.logoutForm" name="logout" value="yes">Sign out</button>';
  ctx.body = page('Sign out', `${form}${submit}<script>document.querySelector('button').click()</script>`);
}

export function renderError(ctx: KoaContextWithOIDC, { error }: { error: string }): void {
  ctx.type = 'html';
  ctx.body = page('Sign-in failed', `<p>${error.replace(/[^\w ]/g, '')}</p>`);
}

export function postLogoutSuccessSource(ctx: KoaContextWithOIDC): void {
  ctx.body = page('Signed out', '<p>You have signed out.</p>');
}

const signInPage = page(
  'Sign in',
  `<form method="post">
<p>This page replaces your identity provider during development. Any name works, and olga is an operator.</p>
<label>Name <input name="login" required maxlength="255" autocomplete="username" autofocus></label>
<button type="submit">Sign in</button>
</form>`,
);

function page(title: string, content: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
body { max-width: 24rem; margin: 15vh auto 0; padding: 0 1rem }
input, button { display: block; width: 100%; font: inherit; padding: 0.5rem; margin: 0.25rem 0 1rem }
</style>
</head>
<body>
<main>
<h1>${title}</h1>
${content}
</main>
</body>
</html>
`;
}

function show(res: ServerResponse, status: number, html: string): void {
  res.writeHead(status, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' }).end(html);
}
