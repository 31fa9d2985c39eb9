/** Settings of the service for the page. None of them is secret. */
export type ConsoleSettings = {
  /** Address of the API, without a slash at the end. */
  baseUrl: string;
  /** Address of the page, to which the issuer redirects. */
  consoleUrl: string;
  docsUrl: string;
  issuer: string;
  consoleClientId: string;
  /** The scopes that it requests, with spaces between them. */
  consoleScopes: string;
  /** The API whose tokens it requests, as the issuer knows it. Empty: it names none. */
  consoleResource: string;
};
