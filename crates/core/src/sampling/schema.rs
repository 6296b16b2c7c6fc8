//! JSON schema of the sampling parameters of a request.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use super::{ParamSpec, SamplingOverrides, SamplingParams};

impl ToSchema for SamplingOverrides {}

impl PartialSchema for SamplingOverrides {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().description(Some("Sampling parameters"));
        let specs = SamplingParams::SPECS.iter();
        let names = specs.flat_map(|spec| {
            [spec.name]
                .into_iter()
                .chain(spec.aliases.iter().copied())
                .map(move |name| (name, spec))
        });
        names.fold(object, |object, (name, spec)| object.property(name, field(spec))).into()
    }
}

fn field(spec: &ParamSpec) -> ObjectBuilder {
    let (number, format) = match spec.is_integer {
        true => (Type::Integer, KnownFormat::Int64),
        false => (Type::Number, KnownFormat::Float),
    };
    let range = &spec.range;
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([number, Type::Null]))
        .format(Some(SchemaFormat::KnownFormat(format)))
        .description(Some(spec.help))
        .minimum((!range.excludes_min).then_some(range.min))
        .exclusive_minimum(range.excludes_min.then_some(range.min))
        .maximum(range.max)
}
