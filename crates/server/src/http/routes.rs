//! Routes and their description in the OpenAPI document, registered together.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::body::{Received, RequestBody, read_json};
use crate::app::App;
use crate::error::ApiError;
use crate::generation::decoding::object_schemas;
use crate::generation::{Addressed, Arrival, Context};

pub(crate) const JSON: &str = "application/json";

/// Operation id and summary of a route, and a description of its response.
pub(crate) struct Doc(pub(crate) &'static str, pub(crate) &'static str, pub(crate) &'static str);

/// Routes with the same tag and the same shape of errors.
pub(crate) struct Routes {
    tag: &'static str,
    error: Value,
    router: Router<App>,
    /// Operations by path and method.
    paths: BTreeMap<String, BTreeMap<&'static str, Value>>,
    schemas: BTreeMap<String, Value>,
    /// Readers of the bodies of dialects.
    #[cfg(feature = "fuzzing")]
    pub(crate) readers: Vec<Reader>,
}

/// Reads a body without running the model.
#[cfg(feature = "fuzzing")]
pub(crate) type Reader = fn(&Context, &[u8]) -> Result<(), ApiError>;

impl Routes {
    /// Creates an empty list of routes whose errors have the type `E`.
    pub(crate) fn new<E: ToSchema>(tag: &'static str) -> Self {
        let (router, paths, schemas) = (Router::new(), BTreeMap::new(), BTreeMap::new());
        let mut routes = Self {
            tag,
            error: Value::Null,
            router,
            paths,
            schemas,
            #[cfg(feature = "fuzzing")]
            readers: Vec::new(),
        };
        routes.error = routes.schema::<E>();
        routes
    }

    /// Adds a route that responds with JSON.
    pub(crate) fn get<T, F>(self, path: &str, doc: Doc, handler: fn(App) -> F) -> Self
    where
        T: Serialize + ToSchema + 'static,
        F: Future<Output = Result<T, ApiError>> + Send + 'static,
    {
        self.route::<T>("get", path, doc, JSON, json_handler(handler))
    }

    /// Adds a route that reads and responds with JSON, once its model is loaded.
    pub(crate) fn post<R, T, F>(self, path: &str, doc: Doc, handler: fn(Context, R) -> F) -> Self
    where
        R: RequestBody + ToSchema,
        T: Serialize + ToSchema + 'static,
        F: Future<Output = Result<T, ApiError>> + Send + 'static,
    {
        let respond = async move |State(app): State<App>, request: Request<Body>| {
            let arrival = Arrival::new(&app, &request)?;
            let Received { body, names, model, .. } = read_json(request, &app).await?;
            let request = arrival.for_model(model.as_deref())?;
            let lease = request.lease().await?;
            let cx = request.with_lease(lease);
            let unknown_fields = Arc::clone(&cx.unknown_fields);
            let response = handler(cx, body).await.map_err(|error| error.renamed(&names))?;
            let mut response = Json(response).into_response();
            unknown_fields.report(response.headers_mut());
            Ok::<_, ApiError>(response)
        };
        self.route::<T>("post", path, doc, JSON, post(respond)).reading::<R>(path)
    }

    /// Adds a route that reads and responds with JSON about a model, which need not be loaded.
    pub(crate) fn ask<R, T, F>(self, path: &str, doc: Doc, handler: fn(Addressed, R) -> F) -> Self
    where
        R: RequestBody + ToSchema,
        T: Serialize + ToSchema + 'static,
        F: Future<Output = Result<T, ApiError>> + Send + 'static,
    {
        let respond = async move |State(app): State<App>, request: Request<Body>| {
            let arrival = Arrival::new(&app, &request)?;
            let Received { body, names, model, .. } = read_json(request, &app).await?;
            let request = arrival.for_model(model.as_deref())?;
            handler(request, body).await.map(Json).map_err(|error| error.renamed(&names))
        };
        self.route::<T>("post", path, doc, JSON, post(respond)).reading::<R>(path)
    }

    /// Adds a route whose response has the type `T` in the given media type.
    pub(crate) fn route<T: ToSchema>(
        mut self,
        method: &'static str,
        path: &str,
        Doc(id, summary, description): Doc,
        media: &str,
        handler: MethodRouter<App>,
    ) -> Self {
        let mut operation = json!({
            "tags": [self.tag],
            "summary": summary,
            "operationId": id,
            "responses": {
                "200": {"description": description, "content": {}},
                "default": {"description": "Error", "content": {JSON: {"schema": self.error}}},
            },
        });
        let parts = path.split('/');
        for name in parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
            operation["parameters"] = json!([{
                "name": name,
                "in": "path",
                "description": format!("Name of the {name}"),
                "required": true,
                "schema": {"type": "string"},
            }]);
        }
        self.paths.entry(path.to_owned()).or_default().insert(method, operation);
        self.router = self.router.route(path, handler);
        self.responding::<T>(method, path, media)
    }

    /// Describes a further media type of a response.
    pub(crate) fn responding<T: ToSchema>(
        mut self,
        method: &'static str,
        path: &str,
        media: &str,
    ) -> Self {
        let content = json!({"schema": self.schema::<T>()});
        self.operation(path, method)["responses"]["200"]["content"][media] = content;
        self
    }

    /// Describes the body of the `POST` request at a path.
    pub(crate) fn reading<R: ToSchema>(mut self, path: &str) -> Self {
        let schema = self.schema::<R>();
        self.operation(path, "post")["requestBody"] =
            json!({"content": {JSON: {"schema": schema}}, "required": true});
        self
    }

    /// Describes the form of the `POST` request at a path.
    pub(crate) fn reading_form<R: ToSchema>(mut self, path: &str) -> Self {
        let schema = self.schema::<R>();
        self.operation(path, "post")["requestBody"] =
            json!({"content": {"multipart/form-data": {"schema": schema}}, "required": true});
        self
    }

    fn operation(&mut self, path: &str, method: &'static str) -> &mut Value {
        self.paths.entry(path.to_owned()).or_default().entry(method).or_default()
    }

    /// Adds another path of a route, which is not described.
    pub(crate) fn alias<T, F>(mut self, path: &str, handler: fn(App) -> F) -> Self
    where
        T: Serialize + 'static,
        F: Future<Output = Result<T, ApiError>> + Send + 'static,
    {
        self.router = self.router.route(path, json_handler(handler));
        self
    }

    /// Adds another path of a route that shows more to operators, which is not described.
    pub(crate) fn alias_route(mut self, path: &str, handler: MethodRouter<App>) -> Self {
        self.router = self.router.route(path, handler);
        self
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.paths.extend(other.paths);
        self.schemas.extend(other.schemas);
        #[cfg(feature = "fuzzing")]
        self.readers.extend(other.readers);
        self
    }

    #[cfg(feature = "fuzzing")]
    pub(crate) fn reader(mut self, reader: Reader) -> Self {
        self.readers.push(reader);
        self
    }

    /// Returns the router, and the OpenAPI document of its routes.
    pub(crate) fn into_parts(mut self) -> (Router<App>, Value) {
        // The engine declares the settings of decoding modes.
        let sampling = self.schemas.get_mut("Sampling");
        if let Some(Value::Object(fields)) = sampling.map(|schema| &mut schema["properties"]) {
            fields.extend(object_schemas());
        }
        let document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "WrinkleFree",
                "description": "Runs 1.58-bit language models. The same request gives the same answer.",
                "license": {"name": env!("CARGO_PKG_LICENSE")},
                "version": env!("CARGO_PKG_VERSION"),
            },
            "paths": self.paths,
            "components": {"schemas": self.schemas},
        });
        (self.router, document)
    }

    /// Returns the schema of a type: a reference, unless it is a list or a primitive.
    fn schema<T: ToSchema>(&mut self) -> Value {
        let mut types = Vec::new();
        T::schemas(&mut types);
        let to_json = |schema| serde_json::to_value(schema).unwrap_or_default();
        self.schemas.extend(types.into_iter().map(|(name, schema)| (name, to_json(schema))));
        let (name, schema) = (T::name(), to_json(T::schema()));
        if matches!(&*name, "String" | "Vec") {
            return schema;
        }
        self.schemas.insert(name.to_string(), schema);
        json!({"$ref": format!("#/components/schemas/{name}")})
    }
}

fn json_handler<T, F>(handler: fn(App) -> F) -> MethodRouter<App>
where
    T: Serialize + 'static,
    F: Future<Output = Result<T, ApiError>> + Send + 'static,
{
    get(async move |State(app): State<App>| handler(app).await.map(Json))
}

/// Lists the fields of a schema in a document with their own schemas, flattened ones included.
pub(crate) fn fields<'a>(document: &'a Value, schema: &'a Value) -> Vec<(&'a str, &'a Value)> {
    let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    let schema = name.map_or(schema, |name| &document["components"]["schemas"][name]);
    let parts = schema["allOf"].as_array().into_iter().flatten();
    let own = schema["properties"].as_object().into_iter().flatten();
    let own = own.map(|(name, field)| (name.as_str(), field));
    parts.flat_map(|part| fields(document, part)).chain(own).collect()
}
